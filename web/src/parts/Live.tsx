import { Group, SegmentedControl, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useState } from "react";
import { Refusal, type Schemas } from "../api/client";
import { useMetrics } from "../api/queries";
import { bytesPerSecond, microseconds, percent, scaled } from "./format";
import { Charts, SPANS } from "./HistoryCharts";
import { Loaded } from "./Page";
import { TimeChart } from "./TimeChart";

type Point = Schemas["MetricsPoint"];

const LIVE = [{ value: "1", label: "5 minutes" }, { value: "10", label: "1 hour" }];
const KEPT = SPANS.filter(({ value }) => value !== "hour");

/** What hosts do to the node, as it changes. */
export function Live() {
  const [chosen, setChosen] = useState("1");
  const metrics = useMetrics(chosen === "10" ? 10 : 1);
  // A tenant's token may not see the whole node.
  if (metrics.error instanceof Refusal && metrics.error.status === 403) return null;
  const kept = KEPT.find(({ value }) => value === chosen);
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Title order={2} size="h5">Load</Title>
        <SegmentedControl size="xs" aria-label="Time span" value={chosen} onChange={setChosen}
          data={[...LIVE, ...KEPT.map(({ value, label }) => ({ value, label }))]} />
      </Group>
      {kept
        ? <Charts kind="node" span={kept} />
        : <Loaded of={metrics}>{(found) => <Now points={found.points} />}</Loaded>}
    </Stack>
  );
}

function Now({ points }: { points: Point[] }) {
  if (points.length === 0) return <Text c="dimmed" size="sm">The first figures come in a moment.</Text>;
  const fill = (point: Point) => point.usable_bytes > 0 ? point.used_bytes / point.usable_bytes : 0;
  const times = points.map((point) => new Date(point.time).getTime());
  const line = (name: string, of: (point: Point) => number | null) => ({ name, values: points.map(of) });
  const latency = ({ operations_per_second, latency_p99_us }: Schemas["Flow"]) => operations_per_second > 0 ? latency_p99_us : null;
  const common = { times, group: "live" };
  return (
    <SimpleGrid cols={{ base: 1, md: 2, xl: 4 }}>
      <TimeChart title="Throughput" show={bytesPerSecond} {...common}
        lines={[line("Read", (point) => point.read.bytes_per_second), line("Written", (point) => point.write.bytes_per_second)]} />
      <TimeChart title="IOPS" show={scaled} {...common}
        lines={[line("Reads", (point) => point.read.operations_per_second), line("Writes", (point) => point.write.operations_per_second)]} />
      <TimeChart title="p99 latency" show={microseconds} {...common}
        lines={[line("Reads", (point) => latency(point.read)), line("Writes", (point) => latency(point.write))]} />
      <TimeChart title="Pools and cores" show={(share) => percent(share)} most={1} {...common}
        lines={[line("Fill", fill), line("Busiest core", (point) => point.busy)]} />
    </SimpleGrid>
  );
}
