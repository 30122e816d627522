import { Button, Card, Group, Table, Text, Title } from "@mantine/core";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { useNamespaces } from "../api/queries";
import { Confirm } from "./Confirm";
import { bytes } from "./format";
import { FormModal, type Values } from "./FormModal";
import { useChange } from "./useChange";

/** Namespaces of a drive that manages them; nothing of one that does not. */
export function Namespaces({ drive }: { drive: string }) {
  const found = useNamespaces(drive, true);
  const [creating, setCreating] = useState(false);
  const [leaving, setLeaving] = useState<number | null>(null);
  const attach = useChange(
    ({ nsid, attached }: Schemas["Namespace"]) => {
      const at = { params: { path: { name: drive, nsid } } };
      return attached
        ? answer(node.DELETE("/v1/drives/{name}/namespaces/{nsid}/attachment", at))
        : answer(node.PUT("/v1/drives/{name}/namespaces/{nsid}/attachment", at));
    },
    ({ nsid, attached }) => `Namespace ${nsid} ${attached ? "detached" : "attached"}`,
  );
  if (!found.data) return null;
  const { namespaces, total_bytes, unallocated_bytes } = found.data;
  return (
    <Card withBorder>
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5">Namespaces</Title>
        <Button size="xs" variant="default" onClick={() => setCreating(true)}>Create namespace</Button>
      </Group>
      <Text size="sm" c="dimmed">{bytes(unallocated_bytes)} of {bytes(total_bytes)} are unallocated: more of it makes the drive faster and lets it live longer.</Text>
      <Table.ScrollContainer minWidth={320} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
        <Table aria-label={`Namespaces of ${drive}`} verticalSpacing={4}>
          <Table.Thead><Table.Tr><Table.Th>NSID</Table.Th><Table.Th>Size</Table.Th><Table.Th>Attached</Table.Th><Table.Td /></Table.Tr></Table.Thead>
          <Table.Tbody>
            {namespaces.map((one) => (
              <Table.Tr key={one.nsid}>
                <Table.Td>{one.nsid}</Table.Td>
                <Table.Td>{bytes(one.bytes)}</Table.Td>
                <Table.Td>{one.attached ? "yes" : "no"}{one.used_as_drive && ", a drive of this node"}</Table.Td>
                <Table.Td ta="right">
                  <Button size="compact-xs" variant="subtle" onClick={() => attach.mutate(one)} aria-label={`${one.attached ? "Detach" : "Attach"} namespace ${one.nsid}`}>
                    {one.attached ? "Detach" : "Attach"}
                  </Button>
                  <Button size="compact-xs" variant="subtle" color="red" onClick={() => setLeaving(one.nsid)} aria-label={`Delete namespace ${one.nsid}`}>Delete</Button>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {attach.error && <Text c="red" size="sm" role="alert">{attach.error.message}</Text>}
      {creating && <Create drive={drive} close={() => setCreating(false)} />}
      {leaving !== null && <Delete drive={drive} nsid={leaving} close={() => setLeaving(null)} />}
    </Card>
  );
}

function Create({ drive, close }: { drive: string; close: () => void }) {
  return (
    <FormModal title={`Namespace of ${drive}`} verb="Create" close={close} done={() => "Namespace created"}
      ask={({ size = "", block }: Values) => answer(node.POST("/v1/drives/{name}/namespaces", {
        params: { path: { name: drive } },
        body: { size: size.replaceAll(" ", ""), block_bytes: Number(block) as Schemas["BlockSize"] },
      }))}
      fields={[
        { name: "size", label: "Size", example: "1TiB" },
        { name: "block", label: "Block size", choices: [{ value: "4096", label: "4096 bytes" }, { value: "512", label: "512 bytes" }] },
      ]}
    />
  );
}

function Delete({ drive, nsid, close }: { drive: string; nsid: number; close: () => void }) {
  const remove = useChange(
    () => answer(node.DELETE("/v1/drives/{name}/namespaces/{nsid}", { params: { path: { name: drive, nsid } } })),
    () => `Namespace ${nsid} of ${drive} deleted`,
  );
  return (
    <Confirm
      title={`Delete namespace ${nsid} of ${drive}`}
      consequence="All data of the namespace is lost, for every host that uses it."
      name={`${drive}-${nsid}`}
      verb="Delete"
      pending={remove.isPending}
      error={remove.error}
      confirm={() => remove.mutate(undefined, { onSuccess: close })}
      close={close}
    />
  );
}
