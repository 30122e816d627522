import { Alert, Anchor, Card, List, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { Link } from "wouter";
import { useJobs, usePools, useStatus } from "../api/queries";
import { ago, dateTime } from "../parts/format";
import { JobList } from "../parts/JobList";
import { Live } from "../parts/Live";
import { Loaded, Page } from "../parts/Page";
import { Fill } from "../parts/PoolFacts";

/** The node at a glance: what is wrong, what it does now, how full it is. */
export function Overview() {
  const status = useStatus();
  const pools = usePools();
  const jobs = useJobs();
  return (
    <Page title="Overview">
      <Loaded of={status}>
        {(node) => (
          <Stack>
            {node.problems.length > 0
              ? (
                <Alert color="red" role="alert" title={node.problems.length === 1 ? "One thing is wrong" : `${node.problems.length} things are wrong`}>
                  <List size="sm">{node.problems.map((problem) => <List.Item key={problem}>{problem}</List.Item>)}</List>
                </Alert>
              )
              : <Alert color="green" title="All is well" />}
            <SimpleGrid cols={{ base: 2, sm: 4 }}>
              <Count title="Volumes" total={node.volumes.total} offline={node.volumes.offline} href="/volumes" />
              <Count title="Drives" total={node.drives.total} offline={node.drives.offline} href="/drives" />
              <Count title="Sessions" total={node.sessions} href="/sessions" />
              <Card withBorder padding="sm">
                <Text size="sm" c="dimmed">Running since</Text>
                <Text fw={700}><time dateTime={node.started} title={dateTime(node.started)}>{ago(node.started)}</time></Text>
                <Text size="xs" c="dimmed">version {node.version}{node.cores.length > 0 && `, cores ${node.cores.join(", ")}`}</Text>
              </Card>
            </SimpleGrid>
          </Stack>
        )}
      </Loaded>
      <Live />
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Card withBorder>
          <Title order={2} size="h5" mb="xs">Space</Title>
          <Loaded of={pools}>
            {(all) => all.length === 0
              ? <Text c="dimmed" size="sm">No pools yet.</Text>
              : <Stack>{all.map((pool) => <div key={pool.name}><Anchor component={Link} href={`/pools/${pool.name}`} fw={600} size="sm">{pool.name}</Anchor><Fill used={pool.used_bytes} usable={pool.usable_bytes} /></div>)}</Stack>}
          </Loaded>
        </Card>
        <Card withBorder>
          <Title order={2} size="h5" mb="xs">Jobs</Title>
          <Loaded of={jobs}>{(all) => <JobList jobs={all} />}</Loaded>
        </Card>
      </SimpleGrid>
    </Page>
  );
}

interface CountProps {
  title: string;
  total: number;
  offline?: number;
  href: string;
}

function Count({ title, total, offline, href }: CountProps) {
  return (
    <Card withBorder padding="sm">
      <Anchor component={Link} href={href} size="sm">{title}</Anchor>
      <Text fw={700} size="xl">{total}</Text>
      {offline !== undefined && offline > 0 && <Text size="xs" c="red">{offline} offline</Text>}
    </Card>
  );
}
