import { Button, Card, Group, Text, Title } from "@mantine/core";
import { useState } from "react";
import { useUsage } from "../api/queries";
import { DataTable } from "./DataTable";
import { bytes } from "./format";
import { Empty, Loaded } from "./Page";

/** Where the space of a pool has gone: counted when somebody asks. With `only`, of one volume and its
 * snapshots. */
export function Usage({ pool, only }: { pool: string; only?: (name: string, snapshot: boolean) => boolean }) {
  const [wanted, setWanted] = useState(false);
  const usage = useUsage(pool, wanted);
  const ask = () => { if (wanted) void usage.refetch(); else setWanted(true); };
  return (
    <Card withBorder>
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5">Space by volume and snapshot</Title>
        <Button size="xs" variant="default" loading={usage.isFetching} onClick={ask}>{usage.data ? "Count again" : "Count"}</Button>
      </Group>
      {!wanted && <Text size="sm" c="dimmed">The node counts in a pass over the maps of pool {pool}, which takes minutes for each TiB.</Text>}
      {wanted && (
        <Loaded of={usage}>
          {({ users, total_bytes, unnamed_bytes }) => (
            <>
              <DataTable
                label="Space"
                rows={users.filter(({ name, snapshot }) => only?.(name, snapshot) ?? true)}
                id={({ name, snapshot }) => `${snapshot} ${name}`}
                text={({ name }) => name}
                empty={<Empty title="Nothing is stored" />}
                columns={[
                  { title: "Name", cell: ({ name }) => name, order: ({ name }) => name },
                  { title: "Kind", cell: ({ snapshot }) => snapshot ? "snapshot" : "volume", order: ({ snapshot }) => Number(snapshot), from: "sm" },
                  { title: "Logical", cell: (use) => bytes(use.logical_bytes), order: (use) => use.logical_bytes, align: "right" },
                  { title: "Shared", cell: (use) => bytes(use.shared_bytes), order: (use) => use.shared_bytes, align: "right" },
                  { title: "Unique", cell: (use) => bytes(use.unique_bytes), order: (use) => use.unique_bytes, align: "right" },
                ]}
              />
              {!only && <Text size="sm" c="dimmed">Total {bytes(total_bytes)}, of which {bytes(unnamed_bytes)} unnamed</Text>}
            </>
          )}
        </Loaded>
      )}
    </Card>
  );
}
