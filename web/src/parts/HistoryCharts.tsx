import { Group, SegmentedControl, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { useHistory } from "../api/queries";
import { bytes, bytesPerSecond, microseconds, percent, scaled } from "./format";
import { Loaded } from "./Page";
import type { Scale } from "./ticks";
import { TimeChart } from "./TimeChart";

type Kind = Schemas["HistoryKind"];
type Metric = Schemas["HistoryMetric"];

export interface Span {
  value: string;
  label: string;
  step: number;
  seconds: number;
}

/** As far as the node remembers, at each resolution. */
export const SPANS: Span[] = [
  { value: "hour", label: "1 hour", step: 10, seconds: 3600 },
  { value: "day", label: "1 day", step: 60, seconds: 86_400 },
  { value: "month", label: "30 days", step: 900, seconds: 2_592_000 },
];

interface Kept {
  title: string;
  lines: [name: string, metric: Metric][];
  show: (value: number) => string;
  scale?: Scale;
  most?: number;
}

const LOAD: Kept[] = [
  { title: "Throughput", lines: [["Read", "read_bytes_per_second"], ["Written", "write_bytes_per_second"]], show: bytesPerSecond },
  { title: "IOPS", lines: [["Reads", "read_iops"], ["Writes", "write_iops"]], show: scaled },
  { title: "p99 latency", lines: [["Reads", "read_latency_p99_us"], ["Writes", "write_latency_p99_us"]], show: microseconds },
];

const CHARTS: Record<Kind, Kept[]> = {
  node: LOAD,
  volume: LOAD,
  pool: [
    { title: "Space", lines: [["Used", "used_bytes"], ["Usable", "usable_bytes"]], show: bytes, scale: "binary" },
    { title: "Throughput", lines: [["Read", "read_bytes_per_second"], ["Written", "write_bytes_per_second"]], show: bytesPerSecond },
    { title: "IOPS", lines: [["IOPS", "iops"]], show: scaled },
    { title: "Missing drives", lines: [["Missing drives", "missing_drives"]], show: scaled, scale: "whole" },
  ],
  drive: [
    { title: "Throughput", lines: [["Read", "read_bytes_per_second"], ["Written", "write_bytes_per_second"]], show: bytesPerSecond },
    { title: "Wear", lines: [["Percentage used", "percentage_used"], ["Available spare", "available_spare_percent"]], show: (value) => percent(value / 100), most: 100 },
    { title: "Errors", lines: [["Errors", "errors"]], show: scaled, scale: "whole" },
    { title: "State", lines: [["State", "online"]], show: (value) => value > 0.5 ? "online" : "offline", scale: "whole", most: 1 },
  ],
};

/** What an object did, over an hour, a day or 30 days. */
export function HistoryCharts({ kind, name }: { kind: Kind; name?: string }) {
  const [chosen, setChosen] = useState("hour");
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Title order={2} size="h5">History</Title>
        <SegmentedControl size="xs" aria-label="Time span" data={SPANS.map(({ value, label }) => ({ value, label }))} value={chosen} onChange={setChosen} />
      </Group>
      <Charts kind={kind} name={name} span={SPANS.find(({ value }) => value === chosen) ?? SPANS[0]!} />
    </Stack>
  );
}

/** The charts of one span. */
export function Charts({ kind, name, span }: { kind: Kind; name?: string | undefined; span: Span }) {
  const history = useHistory({ kind, names: name ? [name] : [], step_seconds: span.step, seconds: span.seconds });
  return <Loaded of={history}>{(found) => <Drawn kind={kind} history={found} />}</Loaded>;
}

/** Points that a chart shows: more would fall onto one another. */
const POINTS_MAX = 360;

function Drawn({ kind, history }: { kind: Kind; history: Schemas["History"] }) {
  const series = history.objects[0]?.series ?? [];
  const recorded = series.some(({ values }) => values.some((value) => value != null));
  if (!recorded) {
    return <Text c="dimmed" size="sm">Nothing is recorded for this span yet. The first points come after {history.step_seconds * 2} seconds.</Text>;
  }
  const count = series[0]?.values.length ?? 0;
  const width = Math.max(1, Math.ceil(count / POINTS_MAX));
  const first = new Date(history.first).getTime();
  const times = Array.from({ length: Math.ceil(count / width) }, (_, index) => (
    first + (Math.min(count, (index + 1) * width) - 1) * history.step_seconds * 1000
  ));
  const values = (metric: Metric) => merged(series.find((one) => one.metric === metric)?.values ?? [], width, metric);
  // A drive that does not tell of its health has no wear to show.
  const has = (metric: Metric) => series.some((one) => one.metric === metric && one.values.some((value) => value != null));
  const charts = CHARTS[kind].filter(({ title, lines }) => title !== "Wear" || lines.some(([, metric]) => has(metric)));
  return (
    <SimpleGrid cols={{ base: 1, md: 2, xl: Math.min(4, charts.length) }}>
      {charts.map(({ title, lines, ...rest }) => (
        <TimeChart key={title} title={title} times={times} group={`${kind} history`} {...rest}
          lines={lines.map(([name, metric]) => ({ name, values: values(metric) }))} />
      ))}
    </SimpleGrid>
  );
}

/** Fewer values, each of several neighbours: rates by their mean, the rest by the worst. */
function merged(values: (number | null | undefined)[], width: number, metric: Metric): (number | null)[] {
  const rate = metric.endsWith("iops") || metric.endsWith("per_second");
  const all: (number | null)[] = [];
  for (let begin = 0; begin < values.length; begin += width) {
    const known = values.slice(begin, begin + width).filter((value) => value != null);
    const sum = () => known.reduce((sum, value) => sum + value, 0);
    if (known.length === 0) all.push(null);
    else if (rate) all.push(sum() / known.length);
    else if (metric === "errors") all.push(sum());
    else all.push(metric === "online" || metric === "available_spare_percent" ? Math.min(...known) : Math.max(...known));
  }
  return all;
}
