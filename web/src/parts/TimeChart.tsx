import { LineChart } from "@mantine/charts";
import { Card, Text, Title } from "@mantine/core";
import { trimmed } from "./format";
import { type Scale, ticks, timeText, timeTicks } from "./ticks";

export interface Line {
  name: string;
  /** One for each time; nothing where there is none. */
  values: (number | null | undefined)[];
}

interface Props {
  title: string;
  /** When each value was, in milliseconds since 1970. */
  times: number[];
  lines: Line[];
  show: (value: number) => string;
  scale?: Scale;
  /** Where the axis ends, if that does not depend on the values. */
  most?: number;
  /** Charts of one group show the same time under the pointer. */
  group: string;
}

const COLOURS = ["cyan.7", "orange.7"];

/** Lines over time: round ticks, times in the reader's zone, a legend, values under the pointer. */
export function TimeChart({ title, times, lines, show, scale = "decimal", most, group }: Props) {
  const values = lines.flatMap((line) => line.values).filter((value) => value != null);
  const levels = ticks(most ?? values.reduce((highest, value) => Math.max(highest, value), 0), scale);
  const from = times[0] ?? 0;
  const to = times[times.length - 1] ?? 0;
  const now = lines.map(({ name, values }) => {
    const last = values[values.length - 1];
    return `${name} ${last == null ? "-" : show(last).trim()}`;
  });
  return (
    <Card withBorder padding="sm">
      <Title order={3} size="h6">{title}</Title>
      <Text size="xs" c="dimmed" mb="xs">{now.join(", ")}</Text>
      <LineChart
        h={200}
        data={times.map((time, index) => ({
          time, ...Object.fromEntries(lines.map(({ name, values }) => [name, values[index] ?? null])),
        }))}
        dataKey="time"
        series={lines.map(({ name }, index) => ({ name, color: COLOURS[index] ?? "gray.6" }))}
        valueFormatter={show}
        curveType="linear"
        withDots={false}
        connectNulls={false}
        withLegend
        legendProps={{ verticalAlign: "top", height: 32, itemSorter: null }}
        xAxisProps={{
          type: "number", domain: [from, to], ticks: timeTicks(from, to),
          tickFormatter: (at: number) => timeText(at, to - from),
        }}
        yAxisProps={{
          ticks: levels, domain: [0, levels[levels.length - 1] ?? 1], width: 72, interval: 0,
          tickFormatter: (value: number) => trimmed(show(value)),
        }}
        tooltipProps={{ labelFormatter: (at) => typeof at === "number" ? new Date(at).toLocaleString() : at }}
        lineChartProps={{ syncId: group, syncMethod: "value" }}
        lineProps={{ isAnimationActive: false }}
        role="img"
        aria-label={title}
      />
    </Card>
  );
}
