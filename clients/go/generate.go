// Package flashyard is the REST API of Flashyard storage nodes as Go functions and types.
//
// It is generated from openapi.json by `go generate`.
package flashyard

//go:generate go tool -modfile=tools.mod oapi-codegen --config oapi-codegen.yaml openapi.json
