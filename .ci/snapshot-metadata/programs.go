//go:build programs

// A sidecar that the tests of the CSI driver run, and a client that asks it. Nothing is
// compiled here: this file names them, and the definition that comes with the sidecar.
package metadata

import (
	_ "github.com/fullstorydev/grpcurl/cmd/grpcurl"
	_ "github.com/kubernetes-csi/external-snapshot-metadata/client/apis/snapshotmetadataservice/v1beta1"
	_ "github.com/kubernetes-csi/external-snapshot-metadata/cmd/csi-snapshot-metadata"
)
