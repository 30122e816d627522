import { Button, Card, Group, NumberInput, SimpleGrid, Text, TextInput, Title } from "@mantine/core";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { answer, node, Refusal } from "../api/client";
import { bytes, parseSize } from "./format";
import { Failure } from "./Page";
import { useChange } from "./useChange";

type Limits = Schemas["Limits"];
type Direction = "read" | "write" | "total";

const DIRECTIONS: { direction: Direction; title: string }[] = [
  { direction: "total", title: "" },
  { direction: "read", title: "Read " },
  { direction: "write", title: "Write " },
];

/** A label as a sentence begins. */
function named(direction: string, limit: string): string {
  const label = direction + limit;
  return label.charAt(0).toUpperCase() + label.slice(1);
}

/** A bound as it is shown and edited: nothing stands for no bound. */
interface Bound {
  iops: number | "";
  bandwidth: string;
}

function bound(limits: Limits, direction: Direction): Bound {
  const limit = limits[direction];
  return {
    iops: limit?.iops ?? "",
    bandwidth: limit?.bytes_per_second ? bytes(limit.bytes_per_second) : "",
  };
}

/** What the node leaves out: nothing is limited. */
export const NO_LIMITS: Limits = { burst_ms: 10 };

/** The limits and the minimum of a volume, to be changed while hosts use it. */
export function VolumeLimits({ volume, limits, inPool }: { volume: string; limits: Limits; inPool: boolean }) {
  return (
    <LimitsForm of={volume} limits={limits} minimum={inPool ? "Guaranteed beside the other volumes of the pool." : undefined}
      ask={(body) => answer(node.PUT("/v1/volumes/{name}/limits", { params: { path: { name: volume } }, body }))} />
  );
}

interface Props {
  /** The name of the volume or tenant. */
  of: string;
  limits: Limits;
  /** What the minimum means, where there can be one. */
  minimum: string | undefined;
  ask: (limits: Limits) => Promise<unknown>;
}

/** Limits, and a minimum where there can be one. */
export function LimitsForm({ of, limits, minimum: promise, ask }: Props) {
  const before = { total: bound(limits, "total"), read: bound(limits, "read"), write: bound(limits, "write") };
  const [bounds, setBounds] = useState(before);
  const [minimum, setMinimum] = useState<number | "">(limits.minimum_iops ?? "");
  const change = useChange(() => ask(wanted(limits, before, bounds, minimum)), () => `Limits of ${of} changed`);
  const fault = change.error instanceof Refusal ? change.error : undefined;
  const known = fault?.field?.match(/^(?:(?:total|read|write)\.(?:iops|bytes_per_second)|minimum_iops)$/);
  const at = (field: string) => fault?.field === field ? fault.message : undefined;
  const unreadable = DIRECTIONS.some(({ direction }) => !isSize(bounds[direction].bandwidth));
  const edit = (direction: Direction, part: Partial<Bound>) =>
    setBounds({ ...bounds, [direction]: { ...bounds[direction], ...part } });
  return (
    <Card withBorder>
      <form onSubmit={(event) => { event.preventDefault(); change.mutate(undefined); }}>
        <Title order={2} size="h5">Limits</Title>
        <Text size="sm" c="dimmed" mb="xs">An empty field is no limit.{scaled(limits)}</Text>
        <SimpleGrid cols={{ base: 1, sm: 3 }}>
          {DIRECTIONS.map(({ direction, title }) => (
            <div key={direction}>
              <NumberInput label={named(title, "IOPS limit")} value={bounds[direction].iops} min={0} allowDecimal={false} hideControls
                thousandSeparator=" " error={at(`${direction}.iops`)}
                onChange={(value) => edit(direction, { iops: typeof value === "number" ? value : "" })} />
              <TextInput label={named(title, "bandwidth limit")} value={bounds[direction].bandwidth} placeholder="200MB"
                error={isSize(bounds[direction].bandwidth) ? at(`${direction}.bytes_per_second`) : "A number and a suffix, such as 200MB"}
                onChange={(event) => edit(direction, { bandwidth: event.currentTarget.value })} />
            </div>
          ))}
        </SimpleGrid>
        <Group align="end" mt="xs" justify="space-between">
          {promise && (
            <NumberInput label="Minimum IOPS" value={minimum} min={0} allowDecimal={false} hideControls thousandSeparator=" "
              error={at("minimum_iops")} description={promise}
              onChange={(value) => setMinimum(typeof value === "number" ? value : "")} />
          )}
          <Button type="submit" disabled={unreadable} loading={change.isPending}>Save limits</Button>
        </Group>
        {change.error && !known && <Failure error={change.error} />}
      </form>
    </Card>
  );
}

function isSize(text: string): boolean {
  return text.trim() === "" || parseSize(text) !== undefined;
}

/** The limits as they are to be; what was not touched stays to the byte. */
function wanted(limits: Limits, before: Record<Direction, Bound>, bounds: Record<Direction, Bound>, minimum: number | ""): Limits {
  const one = (direction: Direction) => {
    const { iops, bytes_per_second, ...rest } = limits[direction] ?? {};
    const { bandwidth } = bounds[direction];
    const rate = bandwidth === before[direction].bandwidth ? bytes_per_second : parseSize(bandwidth);
    const count = bounds[direction].iops;
    return { ...rest, ...(count === "" ? {} : { iops: count }), ...(rate == null ? {} : { bytes_per_second: rate }) };
  };
  const { minimum_iops, ...rest } = limits;
  return {
    ...rest, read: one("read"), write: one("write"), total: one("total"),
    ...(minimum === "" ? {} : { minimum_iops: minimum }),
  };
}

/** Bounds that grow with the volume, in words. */
function scaled(limits: Limits): string {
  const words = DIRECTIONS.flatMap(({ direction, title }) => {
    const { iops_per_gib, bytes_per_second_per_gib } = limits[direction] ?? {};
    return [
      iops_per_gib && `${named(title, "IOPS limit")}: ${iops_per_gib} for each GiB.`,
      bytes_per_second_per_gib && `${named(title, "bandwidth limit")}: ${bytes(bytes_per_second_per_gib)} per second for each GiB.`,
    ].filter(Boolean);
  });
  return words.length > 0 ? ` ${words.join(" ")}` : "";
}
