import { Group, Progress, Stack, Text } from "@mantine/core";
import type { Schemas } from "../api/client";
import { ago } from "./format";
import { Empty } from "./Page";
import { StateBadge } from "./StateBadge";

type Job = Schemas["Job"];

/** What takes long: the running ones with how far they are, then the latest that ended. */
export function JobList({ jobs }: { jobs: Job[] }) {
  if (jobs.length === 0) return <Empty title="Nothing is running" />;
  const running = (job: Job) => Number(job.state === "running");
  const ordered = [...jobs].sort((a, b) => running(b) - running(a) || b.id - a.id).slice(0, 10);
  return (
    <Stack gap="xs" component="ul" m={0} p={0} style={{ listStyle: "none" }}>
      {ordered.map((job) => (
        <li key={job.id}>
          <Group justify="space-between" gap="xs">
            <Text size="sm">{job.kind.replaceAll("_", " ")} of {job.object}</Text>
            <Group gap="xs">
              <Text size="xs" c="dimmed">{ago(job.ended ?? job.started)}</Text>
              <StateBadge state={job.state} reason={job.message} />
            </Group>
          </Group>
          {job.state === "running" && <Progress value={job.percent} animated aria-label={`${job.kind} of ${job.object}`} />}
        </li>
      ))}
    </Stack>
  );
}
