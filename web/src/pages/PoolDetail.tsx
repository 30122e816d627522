import { Anchor, Card, Group, Text, Title } from "@mantine/core";
import { Link, useParams } from "wouter";
import type { Schemas } from "../api/client";
import { useJobs, usePools } from "../api/queries";
import { HistoryCharts } from "../parts/HistoryCharts";
import { JobList } from "../parts/JobList";
import { Members } from "../parts/Members";
import { Empty, Loaded, Page } from "../parts/Page";
import { PoolActions } from "../parts/PoolActions";
import { Fill, PoolFacts } from "../parts/PoolFacts";
import { Segments } from "../parts/Segments";
import { Usage } from "../parts/Usage";
import { PoolState } from "./Pools";

/** One pool: its space, drives and history, and all that can be done to it. */
export function PoolDetail() {
  const { name } = useParams<{ name: string }>();
  const pools = usePools();
  return (
    <Loaded of={pools}>
      {(all) => {
        const pool = all.find((candidate) => candidate.name === name);
        return pool
          ? <Detail pool={pool} />
          : (
            <Page title={`Pool ${name}`}>
              <Empty title="There is no such pool"><Anchor component={Link} href="/pools">All pools</Anchor></Empty>
            </Page>
          );
      }}
    </Loaded>
  );
}

function Detail({ pool }: { pool: Schemas["Pool"] }) {
  const jobs = useJobs();
  const own = (jobs.data ?? []).filter(({ object }) => object === `pool/${pool.name}` || object === pool.name);
  const scrubbing = own.some(({ kind, state }) => kind === "scrub" && state === "running");
  return (
    <Page title={`Pool ${pool.name}`} actions={<PoolActions pool={pool} scrubbing={scrubbing} />}>
      <Card withBorder>
        <Group gap="xs" mb="xs"><PoolState pool={pool} /></Group>
        <Fill used={pool.used_bytes} usable={pool.usable_bytes} />
        <PoolFacts pool={pool} />
        {pool.segments && <Segments pool={pool.name} segments={pool.segments} />}
      </Card>
      <HistoryCharts kind="pool" name={pool.name} />
      <Card withBorder>
        <Title order={2} size="h5" mb="xs">Drives</Title>
        <Members pool={pool} acts />
      </Card>
      <Usage pool={pool.name} />
      <Card withBorder>
        <Title order={2} size="h5" mb="xs">Volumes</Title>
        {pool.volumes.length === 0
          ? <Text size="sm" c="dimmed">The pool has no volumes.</Text>
          : (
            <Group gap="xs">
              {pool.volumes.slice(0, VOLUMES_MAX).map((volume) => <Anchor key={volume} component={Link} href={`/volumes/${volume}`} size="sm">{volume}</Anchor>)}
              {pool.volumes.length > VOLUMES_MAX && <Text size="sm" c="dimmed">and {pool.volumes.length - VOLUMES_MAX} more</Text>}
            </Group>
          )}
      </Card>
      <Card withBorder>
        <Title order={2} size="h5" mb="xs">Jobs</Title>
        <JobList jobs={own} />
      </Card>
    </Page>
  );
}

const VOLUMES_MAX = 100;
