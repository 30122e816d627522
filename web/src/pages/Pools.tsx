import {
  Button, Card, Checkbox, Group, Modal, NativeSelect, Progress, SimpleGrid, Stack, Table, Text, TextInput, Title,
} from "@mantine/core";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { useDrives, useJobs, usePools } from "../api/queries";
import { bytes, dateTime, percent } from "../parts/format";
import { JobList } from "../parts/JobList";
import { Empty, Failure, Loaded, Page } from "../parts/Page";
import { Segments } from "../parts/Segments";
import { StateBadge } from "../parts/StateBadge";
import { useChange } from "../parts/useChange";

type Pool = Schemas["Pool"];
type Level = Schemas["PoolLevel"];

/** Pools: space, state, drives and jobs. */
export function Pools() {
  const pools = usePools();
  const jobs = useJobs();
  const [creating, setCreating] = useState(false);
  return (
    <Page title="Pools" actions={<Button onClick={() => setCreating(true)}>Create pool</Button>}>
      <Loaded of={pools}>
        {(all) => all.length === 0
          ? <Empty title="No pools yet">A pool holds volumes on drives under RAID.</Empty>
          : <Stack>{all.map((pool) => <PoolCard key={pool.name} pool={pool} />)}</Stack>}
      </Loaded>
      <Title order={2} size="h4">Jobs</Title>
      <Loaded of={jobs}>{(all) => <JobList jobs={all} />}</Loaded>
      {creating && <CreatePool close={() => setCreating(false)} />}
    </Page>
  );
}

function PoolCard({ pool }: { pool: Pool }) {
  const scrub = useChange(
    () => answer(node.POST("/v1/pools/{name}/scrub", { params: { path: { name: pool.name } } })),
    () => `Scrub of ${pool.name} started`,
  );
  const written = pool.counters.host_blocks_written;
  const amplification = (pool.counters.stripe_blocks_written + pool.counters.map_blocks_written) / written;
  return (
    <Card withBorder>
      <Group justify="space-between">
        <Group gap="xs">
          <Title order={2} size="h4">{pool.name}</Title>
          <StateBadge state={pool.state} reason={pool.reason} />
          {pool.state === "degraded" && pool.drives_to_spare === 0 && <StateBadge state="no_redundancy_left" />}
          <Text c="dimmed" size="sm">{pool.level}{pool.width && `, ${pool.width} wide`} · {pool.members.length} drives · {pool.volumes.length} volumes</Text>
        </Group>
        <Button variant="default" size="xs" loading={scrub.isPending} onClick={() => scrub.mutate(undefined)} aria-label={`Scrub pool ${pool.name}`}>
          Scrub
        </Button>
      </Group>
      {scrub.error && <Failure error={scrub.error} />}
      <Fill used={pool.used_bytes} usable={pool.usable_bytes} />
      {pool.segments && <Segments pool={pool.name} segments={pool.segments} />}
      <SimpleGrid cols={{ base: 2, sm: 4 }} mt="sm">
        <Fact title="Redundancy left" value={redundancyLeft(pool)} />
        <Fact title="Write amplification" value={written > 0 ? amplification.toFixed(2) : "no writes yet"} />
        <Fact title="Garbage collection" value={bytes(pool.counters.relocated_blocks * 4096)} />
        <Fact title="Rebalanced" value={bytes(pool.counters.rebalanced_blocks * 4096)} />
        <Fact title="Repaired" value={bytes(pool.counters.repaired_blocks * 4096)} />
        <Fact title="Free" value={bytes(Math.max(0, pool.usable_bytes - pool.used_bytes - (pool.reserved_bytes ?? 0)))} />
        <Fact title="Reserved" value={bytes(pool.reserved_bytes ?? 0)} />
        <Fact title="Reclaiming" value={bytes(pool.deleted_bytes ?? 0)} />
        <Fact title="Last scrub" value={pool.scrubbed ? dateTime(pool.scrubbed) : "never"} />
        {pool.map && <Fact title="Map and cache" value={`${bytes(pool.map.bytes)}, ${bytes(pool.map.cached_bytes)}`} />}
        <Fact title="Unrecovered reads" value={String(pool.counters.unrecovered_reads)} />
      </SimpleGrid>
      <Members pool={pool} />
    </Card>
  );
}

/** How many more drives may fail, whichever they are. */
function redundancyLeft({ drives_to_spare }: Pool): string {
  if (drives_to_spare == null) return "-";
  if (drives_to_spare === 0) return "none";
  return drives_to_spare === 1 ? "1 drive" : `${drives_to_spare} drives`;
}

/** How full, with the marks at which the node warns. */
export function Fill({ used, usable }: { used: number; usable: number }) {
  const share = usable > 0 ? used / usable : 0;
  const colour = share >= 0.95 ? "red" : share >= 0.8 ? "yellow" : "cyan";
  return (
    <div>
      <Group justify="space-between">
        <Text size="sm">{bytes(used)} of {bytes(usable)}</Text>
        <Text size="sm">{percent(share)}</Text>
      </Group>
      <Progress value={share * 100} color={colour} size="lg" aria-label="Space used" />
    </div>
  );
}

function Members({ pool }: { pool: Pool }) {
  return (
    <Table.ScrollContainer minWidth={300} mt="sm" scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
      <Table aria-label={`Drives of ${pool.name}`} verticalSpacing={4}>
        <Table.Thead>
          <Table.Tr><Table.Th>Drive</Table.Th><Table.Th>State</Table.Th><Table.Th ta="right">Size</Table.Th><Table.Th ta="right">Free</Table.Th><Table.Th ta="right" visibleFrom="sm">Read errors</Table.Th><Table.Th ta="right" visibleFrom="sm">Checksum errors</Table.Th></Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {pool.members.map((member) => (
            <Table.Tr key={member.index}>
              <Table.Td>{member.drive ?? `absent (${member.id.slice(0, 8)})`}</Table.Td>
              <Table.Td><StateBadge state={!member.active ? "missing" : member.slow ? "slow" : "active"} /></Table.Td>
              <Table.Td ta="right">{bytes(member.bytes)}</Table.Td>
              <Table.Td ta="right">{bytes(member.free_bytes)}</Table.Td>
              <Table.Td ta="right" visibleFrom="sm">{member.read_errors}</Table.Td>
              <Table.Td ta="right" visibleFrom="sm">{member.corrupt_blocks}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Fact({ title, value }: { title: string; value: string }) {
  return <div><Text size="xs" c="dimmed">{title}</Text><Text size="sm" fw={600}>{value}</Text></div>;
}

const LEVELS: { value: Level; label: string; least: number }[] = [
  { value: "raid6", label: "raid6: any two drives may fail", least: 4 },
  { value: "raid5", label: "raid5: any one drive may fail", least: 3 },
  { value: "raid10", label: "raid10: striped mirrors", least: 4 },
  { value: "raid1", label: "raid1: two or three copies of everything", least: 2 },
  { value: "raid0", label: "raid0: no redundancy", least: 1 },
];

function CreatePool({ close }: { close: () => void }) {
  const drives = useDrives();
  const [name, setName] = useState("");
  const [level, setLevel] = useState<Level>("raid6");
  const [chosen, setChosen] = useState<string[]>([]);
  const create = useChange(
    () => answer(node.PUT("/v1/pools/{name}", { params: { path: { name } }, body: { level, drives: chosen } })),
    () => `Pool ${name} created`,
  );
  const least = LEVELS.find((candidate) => candidate.value === level)?.least ?? 1;
  return (
    <Modal opened onClose={close} title="Create pool">
      <form onSubmit={(event) => { event.preventDefault(); create.mutate(undefined, { onSuccess: close }); }}>
        <Stack>
          <TextInput label="Name" required value={name} data-autofocus onChange={(event) => setName(event.currentTarget.value)} />
          <NativeSelect label="Level" value={level} data={LEVELS} onChange={(event) => setLevel(event.currentTarget.value as Level)} />
          <Loaded of={drives}>
            {(all) => (
              <Checkbox.Group label={`Drives (${chosen.length} chosen, at least ${least})`} value={chosen} onChange={setChosen}
                description="Their contents are wiped.">
                <Stack gap={6} mt="xs">
                  {all.filter((drive) => !drive.pool && !drive.volume).map((drive) => (
                    <Checkbox key={drive.name} value={drive.name} label={`${drive.name}, ${bytes(drive.capacity_bytes)}`} />
                  ))}
                </Stack>
              </Checkbox.Group>
            )}
          </Loaded>
          {create.error && <Failure error={create.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>Cancel</Button>
            <Button type="submit" loading={create.isPending} disabled={chosen.length < least}>Create</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
