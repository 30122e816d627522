import { Button, Card, Group, MultiSelect, Text, Title } from "@mantine/core";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { useHosts } from "../api/queries";
import { Failure } from "./Page";
import { useChange } from "./useChange";

/** Hosts that may administer a drive as an NVMe subsystem of its own: an emulated drive. */
export function Administrators({ drive }: { drive: Schemas["Drive"] }) {
  const held = drive.administration?.hosts ?? [];
  if (drive.spec.kind !== "emulated" && held.length === 0) return null;
  return <Choice key={held.join()} drive={drive.name} held={held} nqn={drive.administration?.nqn} />;
}

function Choice({ drive, held, nqn }: { drive: string; held: string[]; nqn: string | undefined }) {
  const known = useHosts();
  const [chosen, setChosen] = useState(held);
  const change = useChange(
    async () => {
      const at = (host: string) => ({ params: { path: { name: drive, host } } });
      for (const host of chosen.filter((host) => !held.includes(host))) {
        await answer(node.PUT("/v1/drives/{name}/administrators/{host}", at(host)));
      }
      for (const host of held.filter((host) => !chosen.includes(host))) {
        await answer(node.DELETE("/v1/drives/{name}/administrators/{host}", at(host)));
      }
    },
    () => `Administrators of ${drive} changed`,
  );
  const same = chosen.length === held.length && chosen.every((host) => held.includes(host));
  return (
    <Card withBorder>
      <Title order={2} size="h5" mb="xs">Administrators</Title>
      <Group align="end">
        <MultiSelect flex={1} label="Hosts" value={chosen} onChange={setChosen} searchable
          data={["any", ...(known.data ?? []).map((host) => host.name)]}
          description="They may create and delete the drive's namespaces. A host that is taken out is disconnected." />
        <Button disabled={same} loading={change.isPending} onClick={() => change.mutate(undefined)}>Save</Button>
      </Group>
      {nqn && <Text size="sm" c="dimmed" mt="xs">{nqn}</Text>}
      {change.error && <Failure error={change.error} />}
    </Card>
  );
}
