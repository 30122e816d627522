import { AreaChart, LineChart } from "@mantine/charts";
import {
  Alert, Card, Group, NativeSelect, SimpleGrid, Slider, Stack, Text, Title,
} from "@mantine/core";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { useCurve, useProfiles } from "../api/queries";
import { microseconds, scaled } from "../parts/format";
import { Loaded, Page } from "../parts/Page";

type Point = Schemas["CurvePoint"];
type Profile = Schemas["DriveProfile"];

const LOADS = [
  { value: "randwrite", label: "Random write" },
  { value: "randrw", label: "Random, 70% reads" },
  { value: "randread", label: "Random read" },
];
const OUTSTANDING = ["1", "8", "32", "64", "128", "256"];

/** What leaving a part of a drive unallocated does to its speed and its life. */
export function Explorer() {
  const profiles = useProfiles();
  return (
    <Page title="Drive models">
      <Loaded of={profiles}>{(found) => <Choice profiles={found} />}</Loaded>
    </Page>
  );
}

function Choice({ profiles }: { profiles: Profile[] }) {
  const first = profiles.find((profile) => profile.name === "cm7-r-7.68") ?? profiles[0];
  const [name, setName] = useState(first?.name ?? "");
  const [rw, setRw] = useState<Schemas["AccessPattern"]>("randwrite");
  const [outstanding, setOutstanding] = useState("32");
  const profile = profiles.find((candidate) => candidate.name === name);
  const curve = useCurve(name, rw, Number(outstanding));
  return (
    <Stack>
      <SimpleGrid cols={{ base: 1, sm: 3 }}>
        <NativeSelect label="Drive" value={name} onChange={(event) => setName(event.currentTarget.value)}
          data={profiles.map(({ name, drive }) => ({ value: name, label: drive }))} />
        <NativeSelect label="4 KiB load" value={rw} data={LOADS}
          onChange={(event) => setRw(event.currentTarget.value as Schemas["AccessPattern"])} />
        <NativeSelect label="Requests outstanding" value={outstanding} data={OUTSTANDING}
          onChange={(event) => setOutstanding(event.currentTarget.value)} />
      </SimpleGrid>
      {profile && (
        <Loaded of={curve}>
          {({ points }) => <Sizes key={`${name} ${rw}`} profile={profile} points={points} />}
        </Loaded>
      )}
    </Stack>
  );
}

function Sizes({ profile, points }: { profile: Profile; points: Point[] }) {
  const [index, setIndex] = useState(Math.round((points.length - 1) * 2 / 3));
  const chosen = points[index];
  const whole = points[points.length - 1];
  if (!chosen || !whole) return null;
  return (
    <Stack>
      <div>
        <Text size="sm" fw={500}>Namespace: {terabytes(chosen.namespace_bytes)} of {terabytes(profile.capacity_bytes)}</Text>
        <Slider
          min={0}
          max={points.length - 1}
          value={index}
          onChange={setIndex}
          label={(at) => terabytes(points[at]?.namespace_bytes ?? 0)}
          thumbLabel="Size of the namespace"
        />
      </div>
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }}>
        <Figure title="IOPS" value={scaled(chosen.iops)} beside={times(chosen.iops, whole.iops)} />
        <Figure title="Mean latency" value={microseconds(chosen.mean_latency_us)} beside={times(chosen.mean_latency_us, whole.mean_latency_us)} />
        <Figure title="Write amplification" value={chosen.write_amplification?.toFixed(2) ?? "no writes"} />
        <Figure title="Drive writes per day" value={chosen.drive_writes_per_day?.toFixed(2) ?? "no writes"}
          beside={`rated ${profile.drive_writes_per_day} at full size`} />
        <Figure title="Life at this load" value={days(chosen.days_to_wear_out)} beside={chosen.endurance_bytes ? `${petabytes(chosen.endurance_bytes)} in all` : undefined} />
      </SimpleGrid>
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <Curve title="IOPS by namespace size" points={points} chosen={chosen} name="IOPS" of={(point) => point.iops} show={scaled} area />
        {chosen.endurance_bytes != null
          ? <Curve title="Bytes to write in its life" points={points} chosen={chosen} name="Bytes" of={(point) => point.endurance_bytes ?? 0} show={petabytes} />
          : <Curve title="Mean latency" points={points} chosen={chosen} name="Latency" of={(point) => point.mean_latency_us} show={microseconds} />}
      </SimpleGrid>
      <Alert color="gray" title="How far to trust this">
        Steady state by the model's closed form. Life is counted against the writes that the maker warrants.
        {profile.assumed.length > 0 && ` ${profile.assumed.length} of this profile's values are not published, but assumed: ${profile.assumed.join(", ")}.`}
      </Alert>
    </Stack>
  );
}

interface CurveProps {
  title: string;
  points: Point[];
  chosen: Point;
  name: string;
  of: (point: Point) => number;
  show: (value: number) => string;
  area?: boolean;
}

function Curve({ title, points, chosen, name, of, show, area }: CurveProps) {
  const Chart = area ? AreaChart : LineChart;
  return (
    <Card withBorder>
      <Title order={2} size="h5" mb="xs">{title}</Title>
      <Chart
        h={240}
        data={points.map((point) => ({ size: terabytes(point.namespace_bytes), [name]: of(point) }))}
        dataKey="size"
        series={[{ name, color: "cyan.7" }]}
        valueFormatter={show}
        referenceLines={[{ x: terabytes(chosen.namespace_bytes), label: show(of(chosen)), color: "gray.6" }]}
        curveType="monotone"
        withDots={false}
        role="img"
        aria-label={title}
      />
    </Card>
  );
}

function Figure({ title, value, beside }: { title: string; value: string; beside?: string | undefined }) {
  return (
    <Card withBorder padding="sm">
      <Text size="sm" c="dimmed">{title}</Text>
      <Group gap="xs" align="baseline"><Text fw={700} size="lg">{value}</Text></Group>
      {beside && <Text size="xs" c="dimmed">{beside}</Text>}
    </Card>
  );
}

function terabytes(bytes: number): string {
  return `${(bytes / 1e12).toFixed(2)} TB`;
}

function petabytes(bytes: number): string {
  return `${(bytes / 1e15).toFixed(1)} PB`;
}

function times(value: number, whole: number): string {
  return `${(value / whole).toFixed(2)} × the whole drive`;
}

function days(count: number | null | undefined): string {
  if (count == null) return "no writes";
  if (count > 3650) return "over 10 years";
  return count > 730 ? `${(count / 365).toFixed(1)} years` : `${Math.round(count)} days`;
}
