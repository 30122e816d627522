import { Anchor, Button } from "@mantine/core";
import { useState } from "react";
import { Link } from "wouter";
import { answer, node } from "../api/client";
import { useDrives } from "../api/queries";
import type { Schemas } from "../api/client";
import { DataTable } from "../parts/DataTable";
import { FormModal, type Values } from "../parts/FormModal";
import { bytes } from "../parts/format";
import { Empty, Loaded, Page } from "../parts/Page";
import { StateBadge } from "../parts/StateBadge";

type Drive = Schemas["Drive"];

/** Drives, and what each is used by. */
export function Drives() {
  const drives = useDrives();
  const [adding, setAdding] = useState(false);
  return (
    <Page title="Drives" actions={<Button onClick={() => setAdding(true)}>Add drive</Button>}>
      <Loaded of={drives}>
        {(rows) => (
          <DataTable
            label="Drives"
            rows={rows}
            id={(drive) => drive.name}
            text={(drive) => `${drive.name} ${drive.state} ${origin(drive)} ${user(drive) ?? ""}`}
            empty={<Empty title="No drives yet">Add the block devices that pools are to be made of.</Empty>}
            columns={[
              {
                title: "Name",
                cell: (drive) => <Anchor component={Link} href={`/drives/${drive.name}`}>{drive.name}</Anchor>,
                order: (drive) => drive.name,
              },
              { title: "State", cell: (drive) => <StateBadge state={drive.state} reason={drive.reason} />, order: (drive) => drive.state },
              { title: "Source", cell: origin, order: origin, from: "sm" },
              { title: "Used by", cell: (drive) => user(drive) ?? "-", order: (drive) => user(drive) ?? "" },
              { title: "Capacity", cell: (drive) => bytes(drive.capacity_bytes), order: (drive) => drive.capacity_bytes, align: "right" },
            ]}
          />
        )}
      </Loaded>
      {adding && <AddDrive close={() => setAdding(false)} />}
    </Page>
  );
}

/** The pool that a drive is a member of, or the volume that takes it whole. */
export function user(drive: Drive): string | undefined {
  if (drive.pool) return `pool ${drive.pool}`;
  return drive.volume ? `volume ${drive.volume}` : undefined;
}

export function origin(drive: Drive): string {
  const spec = drive.spec;
  switch (spec.kind) {
    case "path": return spec.path;
    case "emulated": return `model of ${spec.profile}`;
    default: return spec.kind;
  }
}

function AddDrive({ close }: { close: () => void }) {
  return (
    <FormModal title="Add drive" verb="Add" close={close} done={({ name }) => `Drive ${name} added`}
      ask={({ name = "", path = "", size }: Values) => answer(node.PUT("/v1/drives/{name}", {
        params: { path: { name } }, body: { kind: "path", path, ...(size ? { size: size.replaceAll(" ", "") } : {}) },
      }))}
      fields={[
        { name: "name", label: "Name", example: "d0" },
        { name: "path", label: "Path", example: "/dev/nvme0n1", hint: "Of a block device, or of a file. Nothing is written before a pool or a volume takes the drive." },
        { name: "size", label: "Size", example: "1TiB", optional: true, hint: "Of a file that is not there yet." },
      ]}
    />
  );
}
