"""A client that openapi-generator made: lists volumes, makes and deletes one, reads refusals."""

import sys

import flashyard_client as flashyard
from flashyard_client.exceptions import BadRequestException, NotFoundException

url, token = sys.argv[1:]
configuration = flashyard.Configuration(host=url, access_token=token)


def names(page):
    return [item.name for item in page.items]


def size(text):
    return flashyard.Size(text)


with flashyard.ApiClient(configuration) as client:
    volumes, drives = flashyard.VolumesApi(client), flashyard.DrivesApi(client)
    assert names(volumes.list_volumes()) == ["demo"]
    spec = flashyard.VolumeSpec(pool="pool", size=size("16KiB"))
    made = volumes.create_volume("v", spec)
    assert made.capacity_bytes == 16384 and made.state == flashyard.ObjectState.ONLINE, made
    first = volumes.list_volumes(limit=1)
    assert names(first) == ["demo"] and first.next == "demo"
    assert names(volumes.list_volumes(limit=1, after=first.next)) == ["v"]

    memory = flashyard.MemoryDrive(kind="memory", size=size("16MiB"))
    drive = drives.add_drive("n", flashyard.DriveSpec(memory))
    assert isinstance(drive.spec.actual_instance, flashyard.MemoryDrive), drive

    try:
        volumes.create_volume("w", flashyard.VolumeSpec(pool="pool", size=size(0)))
        raise SystemExit("0 bytes were taken")
    except BadRequestException as refused:
        assert refused.data.code == flashyard.ErrorCode.INVALID_ARGUMENT, refused
        assert refused.data.var_field == "size", refused
    volumes.delete_volume("v")
    try:
        volumes.show_volume("v")
        raise SystemExit("what was deleted is there")
    except NotFoundException as gone:
        assert gone.data.code == flashyard.ErrorCode.NOT_FOUND, gone
print("done")
