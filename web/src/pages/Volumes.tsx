import { Anchor, Button, Code, Group } from "@mantine/core";
import { useState } from "react";
import { Link } from "wouter";
import { useVolumes } from "../api/queries";
import { CreateVolume } from "../parts/CreateVolume";
import { DataTable } from "../parts/DataTable";
import { bytes } from "../parts/format";
import { Empty, Loaded, Page } from "../parts/Page";
import { StateBadge } from "../parts/StateBadge";

/** Every volume; what can be done to one is on its own page. */
export function Volumes() {
  const volumes = useVolumes();
  const [creating, setCreating] = useState(false);
  return (
    <Page title="Volumes" actions={<Button onClick={() => setCreating(true)}>Create volume</Button>}>
      <Loaded of={volumes}>
        {(rows) => (
          <DataTable
            label="Volumes"
            rows={rows}
            id={(volume) => volume.name}
            text={(volume) => `${volume.name} ${volume.pool ?? volume.drive ?? ""} ${volume.state} ${volume.hosts.join(" ")}`}
            empty={<Empty title="No volumes yet">Hosts connect to volumes. Create one in a pool.</Empty>}
            columns={[
              {
                title: "Name",
                cell: (volume) => <Anchor component={Link} href={`/volumes/${volume.name}`}>{volume.name}</Anchor>,
                order: (volume) => volume.name,
              },
              { title: "State", cell: (volume) => <StateBadge state={volume.state} reason={volume.reason} />, order: (volume) => volume.state },
              { title: "Stored on", cell: (volume) => place(volume), order: place, wide: true },
              { title: "Size", cell: (volume) => bytes(volume.capacity_bytes), order: (volume) => volume.capacity_bytes, align: "right" },
              { title: "Hosts", cell: (volume) => volume.hosts.join(", ") || "none", order: (volume) => volume.hosts.length, wide: true },
              { title: "NQN", cell: (volume) => <Group wrap="nowrap"><Code>{volume.nqn}</Code></Group>, order: (volume) => volume.nqn, wide: true },
            ]}
          />
        )}
      </Loaded>
      {creating && <CreateVolume close={() => setCreating(false)} />}
    </Page>
  );
}

function place(volume: { pool?: string | null; drive?: string | null }): string {
  return volume.pool ? `pool ${volume.pool}` : `drive ${volume.drive ?? ""}`;
}
