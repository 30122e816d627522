import {
  Anchor, Box, Button, Card, Checkbox, Group, Modal, NativeSelect, NumberInput, Stack, Switch, Text, TextInput, Title,
} from "@mantine/core";
import { useState } from "react";
import { Link } from "wouter";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { useDrives, useJobs, usePools } from "../api/queries";
import { bytes } from "../parts/format";
import { ImportPools } from "../parts/ImportPools";
import { JobList } from "../parts/JobList";
import { Members } from "../parts/Members";
import { Empty, Failure, Loaded, Page } from "../parts/Page";
import { Fill, PoolFacts } from "../parts/PoolFacts";
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
      <ImportPools />
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
  return (
    <Card withBorder>
      <Group justify="space-between">
        <Group gap="xs">
          <Title order={2} size="h4"><Anchor component={Link} href={`/pools/${pool.name}`} inherit>{pool.name}</Anchor></Title>
          <PoolState pool={pool} />
        </Group>
        <Button variant="default" size="xs" loading={scrub.isPending} onClick={() => scrub.mutate(undefined)} aria-label={`Scrub pool ${pool.name}`}>
          Scrub
        </Button>
      </Group>
      {scrub.error && <Failure error={scrub.error} />}
      <Box my="xs"><Fill used={pool.used_bytes} usable={pool.usable_bytes} /></Box>
      {pool.segments && <Segments pool={pool.name} segments={pool.segments} />}
      <PoolFacts pool={pool} />
      <Box mt="md"><Members pool={pool} /></Box>
    </Card>
  );
}

/** How a pool is, and what it is made of. */
export function PoolState({ pool }: { pool: Pool }) {
  return (
    <>
      <StateBadge state={pool.state} reason={pool.reason} />
      {pool.state === "degraded" && pool.drives_to_spare === 0 && <StateBadge state="no_redundancy_left" />}
      <Text c="dimmed" size="sm">{pool.level}{pool.width && `, ${pool.width} wide`} · {pool.members.length} drives · {pool.volumes.length} volumes</Text>
    </>
  );
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
  const [width, setWidth] = useState<number | "">("");
  const [force, setForce] = useState(false);
  const create = useChange(
    () => answer(node.PUT("/v1/pools/{name}", { params: { path: { name } }, body: { level, drives: chosen, force, ...(width === "" ? {} : { width }) } })),
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
          <NumberInput label="Width" value={width} min={1} max={32} allowDecimal={false}
            onChange={(value) => setWidth(typeof value === "number" ? value : "")}
            description="Drives that each stripe is spread over; all of them while this is empty." />
          <Switch label="Take drives that carry something" color="red" checked={force} onChange={(event) => setForce(event.currentTarget.checked)}
            description="File systems, partitions and labels of other pools on them are lost." />
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
