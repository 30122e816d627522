import { LineChart } from "@mantine/charts";
import { Card, Group, SegmentedControl, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useState } from "react";
import { Refusal, type Schemas } from "../api/client";
import { useMetrics } from "../api/queries";
import { bytesPerSecond, microseconds, percent, scaled } from "./format";
import { Loaded } from "./Page";

type Metrics = Schemas["Metrics"];
type Point = Schemas["MetricsPoint"];

const SPANS = [{ value: "1", label: "5 minutes" }, { value: "10", label: "1 hour" }];

/** What hosts do to the node, as it changes. */
export function Live() {
  const [interval, setInterval] = useState("1");
  const metrics = useMetrics(Number(interval));
  // A tenant's token may not see the whole node.
  if (metrics.error instanceof Refusal && metrics.error.status === 403) return null;
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Title order={2} size="h5">Load</Title>
        <SegmentedControl size="xs" aria-label="Time span" data={SPANS} value={interval} onChange={setInterval} />
      </Group>
      <Loaded of={metrics}>{(found) => <Charts metrics={found} />}</Loaded>
    </Stack>
  );
}

function Charts({ metrics }: { metrics: Metrics }) {
  const { points } = metrics;
  const now = points[points.length - 1];
  if (!now) return <Text c="dimmed" size="sm">The first figures come in a moment.</Text>;
  const fill = (point: Point) => point.usable_bytes > 0 ? point.used_bytes / point.usable_bytes : 0;
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, lg: 4 }}>
      <Chart title="Throughput" points={points} show={bytesPerSecond}
        lines={{ Read: (point) => point.read.bytes_per_second, Written: (point) => point.write.bytes_per_second }} />
      <Chart title="IOPS" points={points} show={scaled}
        lines={{ Reads: (point) => point.read.operations_per_second, Writes: (point) => point.write.operations_per_second }} />
      <Chart title="p99 latency" points={points} show={microseconds}
        lines={{ Reads: (point) => point.read.latency_p99_us, Writes: (point) => point.write.latency_p99_us }} />
      <Chart title="Pools and cores" points={points} show={(share) => percent(share)}
        lines={{ Fill: fill, "Busiest core": (point) => point.busy }} />
    </SimpleGrid>
  );
}

interface ChartProps {
  title: string;
  points: Point[];
  lines: Record<string, (point: Point) => number>;
  show: (value: number) => string;
}

const COLORS = ["cyan.7", "orange.7"];

function Chart({ title, points, lines, show }: ChartProps) {
  const last = points[points.length - 1];
  const names = Object.entries(lines);
  return (
    <Card withBorder padding="sm">
      <Title order={3} size="h6">{title}</Title>
      <Text size="xs" c="dimmed" mb="xs">
        {last && names.map(([name, of]) => `${name} ${show(of(last)).trim()}`).join(", ")}
      </Text>
      <LineChart
        h={140}
        data={points.map((point) => ({
          time: new Date(point.time).toLocaleTimeString(),
          ...Object.fromEntries(names.map(([name, of]) => [name, of(point)])),
        }))}
        dataKey="time"
        series={names.map(([name], index) => ({ name, color: COLORS[index] ?? "gray.7" }))}
        valueFormatter={show}
        curveType="linear"
        withDots={false}
        lineChartProps={{ syncId: "live" }}
        lineProps={{ isAnimationActive: false }}
        role="img"
        aria-label={title}
      />
    </Card>
  );
}
