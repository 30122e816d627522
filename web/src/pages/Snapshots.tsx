import { Anchor, Button } from "@mantine/core";
import { useState } from "react";
import { Link } from "wouter";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { useSnapshots, useVolumes } from "../api/queries";
import { Confirm } from "../parts/Confirm";
import { DataTable } from "../parts/DataTable";
import { Consequence, FormModal, several } from "../parts/FormModal";
import { bytes, dateTime } from "../parts/format";
import { Empty, Loaded, Page } from "../parts/Page";
import { useChange } from "../parts/useChange";

type Snapshot = Schemas["Snapshot"];

/** All snapshots, those of volumes that are gone among them. */
export function Snapshots() {
  const snapshots = useSnapshots();
  const [taking, setTaking] = useState(false);
  const [leaving, setLeaving] = useState<Snapshot | null>(null);
  return (
    <Page title="Snapshots" actions={<Button onClick={() => setTaking(true)}>Take snapshots</Button>}>
      <Loaded of={snapshots}>
        {(rows) => (
          <DataTable
            label="Snapshots"
            rows={rows}
            id={(snapshot) => `${snapshot.pool}/${snapshot.name}`}
            text={(snapshot) => `${snapshot.name} ${snapshot.volume ?? ""} ${snapshot.pool}`}
            empty={<Empty title="No snapshots yet">A snapshot keeps a volume as it is now, and takes no space until blocks are written anew.</Empty>}
            columns={[
              { title: "Name", cell: (snapshot) => snapshot.name, order: (snapshot) => snapshot.name },
              {
                title: "Volume",
                cell: ({ volume }) => volume ? <Anchor component={Link} href={`/volumes/${volume}`}>{volume}</Anchor> : "deleted",
                order: (snapshot) => snapshot.volume ?? "",
              },
              { title: "Pool", cell: (snapshot) => snapshot.pool, order: (snapshot) => snapshot.pool, from: "sm" },
              { title: "Size", cell: (snapshot) => bytes(snapshot.bytes), order: (snapshot) => snapshot.bytes, align: "right", from: "sm" },
              { title: "Taken", cell: (snapshot) => snapshot.taken ? dateTime(snapshot.taken) : "-", order: (snapshot) => snapshot.taken ?? "", from: "sm" },
              {
                title: "",
                align: "right",
                cell: (snapshot) => (
                  <Button size="compact-sm" variant="subtle" color="red" onClick={() => setLeaving(snapshot)} aria-label={`Delete snapshot ${snapshot.name}`}>
                    Delete
                  </Button>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      {taking && <Take close={() => setTaking(false)} />}
      {leaving && <Delete snapshot={leaving} close={() => setLeaving(null)} />}
    </Page>
  );
}

function Take({ close }: { close: () => void }) {
  const volumes = useVolumes();
  if (!volumes.data) return null;
  const inPools = volumes.data.filter(({ pool }) => pool);
  return (
    <FormModal title="Take snapshots" verb="Take" close={close}
      ask={({ chosen, suffix = "" }) => answer(node.POST("/v1/snapshots", {
        body: { snapshots: several(chosen).map((volume) => ({ volume, name: `${volume}-${suffix}` })) },
      }))}
      done={({ chosen }) => `${several(chosen).length} snapshots taken`}
      fields={[
        { name: "chosen", label: "Volumes", kind: "several", hint: "Of one pool.", choices: inPools.map(({ name, pool }) => ({ value: name, label: `${name}, pool ${pool}` })) },
        { name: "suffix", label: "Suffix", hint: "Each is called VOLUME-SUFFIX.", initial: new Date().toISOString().slice(0, 16).replace(/[-:]/g, "").toLowerCase() },
      ]}>
      <Consequence>All are taken at one moment: what one holds, the others hold too.</Consequence>
    </FormModal>
  );
}

function Delete({ snapshot: { name, pool }, close }: { snapshot: Snapshot; close: () => void }) {
  const remove = useChange(
    () => answer(node.DELETE("/v1/pools/{pool}/snapshots/{name}", { params: { path: { pool, name } } })),
    () => `Snapshot ${name} deleted`,
  );
  return (
    <Confirm
      title={`Delete snapshot ${name}`}
      consequence="Data that only this snapshot holds is lost. Volumes and clones stay as they are."
      name={name}
      verb="Delete"
      pending={remove.isPending}
      error={remove.error}
      confirm={() => remove.mutate(undefined, { onSuccess: close })}
      close={close}
    />
  );
}
