"""A client that openapi-python-client made: lists volumes, makes and deletes one, reads refusals."""

import sys

from flashyard_node_client import AuthenticatedClient
from flashyard_node_client.api.drives import add_drive, list_drives
from flashyard_node_client.api.volumes import create_volume, delete_volume, list_volumes, show_volume
from flashyard_node_client.models import ErrorBody, ErrorCode, MemoryDrive, MemoryDriveKind
from flashyard_node_client.models import VolumeSpec

url, token = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token)


def names(page):
    return [item.name for item in page.items]


assert names(list_volumes.sync(client=client)) == ["demo"]
made = create_volume.sync("v", client=client, body=VolumeSpec(pool="pool", size="16KiB"))
assert made.capacity_bytes == 16384 and made.state.value == "online", made
first = list_volumes.sync(client=client, limit=1)
assert names(first) == ["demo"] and first.next_ == "demo"
assert names(list_volumes.sync(client=client, limit=1, after=first.next_)) == ["v"]

drive = add_drive.sync(
    "m", client=client, body=MemoryDrive(kind=MemoryDriveKind.MEMORY, size="16MiB")
)
assert isinstance(drive.spec, MemoryDrive), drive
assert "m" in names(list_drives.sync(client=client))

refused = create_volume.sync("w", client=client, body=VolumeSpec(pool="pool", size=0))
assert isinstance(refused, ErrorBody), refused
assert (refused.code, refused.field) == (ErrorCode.INVALID_ARGUMENT, "size"), refused
assert delete_volume.sync_detailed("v", client=client).status_code == 204
gone = show_volume.sync("v", client=client)
assert gone.code == ErrorCode.NOT_FOUND, gone
print("done")
