import { Button, Card, Group, Stack, Text, Title } from "@mantine/core";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { useCarried, useImportable } from "../api/queries";
import { Consequence, FormModal } from "./FormModal";

type Importable = Schemas["ImportablePool"];

/** Pools that drives of the node carry and that it has not opened; nothing where there are none. */
export function ImportPools() {
  const pools = useImportable();
  const carried = useCarried();
  const [importing, setImporting] = useState<Importable | null>(null);
  const others = (carried.data ?? []).filter((label) => !label.importable);
  if ((pools.data ?? []).length === 0 && others.length === 0) return null;
  return (
    <Card withBorder>
      <Title order={2} size="h5" mb="xs">Pools on drives</Title>
      <Stack gap="xs">
        {(pools.data ?? []).map((pool) => (
          <Group key={pool.id} justify="space-between" gap="xs">
            <Text size="sm">
              {pool.name} <Text span c="dimmed">{pool.level}, {pool.drives.length} of {pool.members} drives{pool.holder && `, held by ${pool.holder}`}</Text>
            </Text>
            <Button size="xs" variant="default" onClick={() => setImporting(pool)} aria-label={`Import pool ${pool.name}`}>Import</Button>
          </Group>
        ))}
        {others.map((label) => <Text key={label.drive} size="sm">Drive {label.drive} carries {label.carries}. {label.advice}</Text>)}
      </Stack>
      {importing && <Import pool={importing} close={() => setImporting(null)} />}
    </Card>
  );
}

function Import({ pool, close }: { pool: Importable; close: () => void }) {
  return (
    <FormModal title={`Import pool ${pool.name}`} verb="Import" close={close} done={({ as }) => `Pool ${as || pool.name} imported`}
      ask={({ as, degraded, force, accept }) => answer(node.POST("/v1/pools/{name}/import", {
        params: { path: { name: pool.name } },
        body: {
          id: pool.id, degraded: degraded === "yes", force: force === "yes", accept_loss: accept === "yes",
          ...(as && as !== pool.name ? { as } : {}),
        },
      }))}
      fields={[
        { name: "as", label: "Name", initial: pool.name },
        { name: "degraded", label: "Import it with drives missing", kind: "switch", hint: "Redundancy is smaller until they are back." },
        { name: "force", label: "Take it from the host that holds it", kind: "switch", hint: "That host must be down: it loses the pool." },
        { name: "accept", label: "Accept the loss of acknowledged writes", kind: "switch", hint: "Only when the node says that some are on drives that are missing. They are gone for good then." },
      ]}>
      <Consequence>{`${pool.drives.length} of its ${pool.members} drives are here.`}{pool.holder ? ` ${pool.holder} holds the pool.` : ""}</Consequence>
    </FormModal>
  );
}
