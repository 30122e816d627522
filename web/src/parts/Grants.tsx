import { Button, Card, Group, Table, Text, Title } from "@mantine/core";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { usePools } from "../api/queries";
import { Confirm } from "./Confirm";
import { bytes } from "./format";
import { Consequence, FormModal, type Values } from "./FormModal";
import { useChange } from "./useChange";

type PoolGrant = Schemas["PoolGrant"];

/** What a tenant may take in pools, and has taken. */
export function Grants({ tenant, grants }: { tenant: string; grants: PoolGrant[] }) {
  const [changing, setChanging] = useState<PoolGrant | "new" | null>(null);
  const [revoking, setRevoking] = useState<string | null>(null);
  return (
    <Card withBorder>
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5">Grants</Title>
        <Button size="xs" variant="default" onClick={() => setChanging("new")}>Grant space</Button>
      </Group>
      {grants.length === 0
        ? <Text size="sm" c="dimmed">The tenant may make no volumes by itself: it has no grant.</Text>
        : (
          <Table.ScrollContainer minWidth={320} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
            <Table aria-label={`Grants of ${tenant}`} verticalSpacing={4}>
              <Table.Thead>
                <Table.Tr><Table.Th>Pool</Table.Th><Table.Th>Space</Table.Th><Table.Th>Volumes</Table.Th><Table.Th>Snapshots</Table.Th><Table.Td /></Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {grants.map((one) => (
                  <Table.Tr key={one.pool}>
                    <Table.Td>{one.pool}</Table.Td>
                    <Table.Td>{one.used ? `${bytes(one.used.bytes)} of ` : ""}{bytes(Number(one.grant.size))}</Table.Td>
                    <Table.Td>{count(one.used?.volumes, one.grant.volumes)}</Table.Td>
                    <Table.Td>{count(one.used?.snapshots, one.grant.snapshots)}</Table.Td>
                    <Table.Td ta="right">
                      <Button size="compact-xs" variant="subtle" onClick={() => setChanging(one)} aria-label={`Change the grant in ${one.pool}`}>Change</Button>
                      <Button size="compact-xs" variant="subtle" color="red" onClick={() => setRevoking(one.pool)} aria-label={`Revoke the grant in ${one.pool}`}>Revoke</Button>
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      {changing && <GrantForm tenant={tenant} grant={changing === "new" ? undefined : changing} close={() => setChanging(null)} />}
      {revoking && <Revoke tenant={tenant} pool={revoking} close={() => setRevoking(null)} />}
    </Card>
  );
}

function count(used: number | undefined, most: number | undefined): string {
  if (used === undefined) return most === undefined ? "-" : `up to ${most}`;
  return most === undefined ? String(used) : `${used} of ${most}`;
}

interface GrantProps {
  /** A new one's name is asked for. */
  tenant?: string;
  grant?: PoolGrant | undefined;
  close: () => void;
  made?: (tenant: string) => void;
}

export function GrantForm({ tenant, grant, close, made }: GrantProps) {
  const pools = usePools();
  const ask = async (values: Values) => {
    const { name = tenant ?? "", pool = grant?.pool ?? "", size = "", volumes, snapshots } = values;
    const counts = { ...(volumes ? { volumes: Number(volumes) } : {}), ...(snapshots ? { snapshots: Number(snapshots) } : {}) };
    await answer(node.PUT("/v1/tenants/{name}/grants/{pool}", {
      params: { path: { name, pool } }, body: { size: size.replaceAll(" ", ""), ...counts },
    }));
    made?.(name);
  };
  if (!pools.data) return null;
  return (
    <FormModal
      title={grant ? `Grant of ${tenant} in ${grant.pool}` : "Grant space"} verb="Grant" close={close} ask={ask}
      done={({ name = tenant ?? "" }) => `Space granted to ${name}`}
      fields={[
        ...(tenant ? [] : [{ name: "name", label: "Tenant" }]),
        ...(grant ? [] : [{ name: "pool", label: "Pool", choices: pools.data.map(({ name }) => ({ value: name, label: name })) }]),
        { name: "size", label: "Size", example: "2TiB", initial: grant ? String(grant.grant.size) : "", hint: "Of the tenant's volumes and snapshots together, each counted in full." },
        { name: "volumes", label: "Volumes", optional: true, initial: String(grant?.grant.volumes ?? ""), hint: "As many as the node allows, while this is empty." },
        { name: "snapshots", label: "Snapshots", optional: true, initial: String(grant?.grant.snapshots ?? "") },
      ]}>
      {grant && <Consequence>What the tenant has stays, also beyond a smaller grant. It makes nothing more until it is within it.</Consequence>}
    </FormModal>
  );
}

function Revoke({ tenant, pool, close }: { tenant: string; pool: string; close: () => void }) {
  const revoke = useChange(
    () => answer(node.DELETE("/v1/tenants/{name}/grants/{pool}", { params: { path: { name: tenant, pool } } })),
    () => `Grant of ${tenant} in ${pool} revoked`,
  );
  return (
    <Confirm
      title={`Revoke the grant of ${tenant} in ${pool}`}
      consequence="The tenant's tokens make no more volumes, clones or snapshots there. No data is lost: its volumes stay and are served."
      name={pool}
      verb="Revoke"
      pending={revoke.isPending}
      error={revoke.error}
      confirm={() => revoke.mutate(undefined, { onSuccess: close })}
      close={close}
    />
  );
}
