import { Anchor, Button, Group, NativeSelect, Tooltip } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useCallback, useMemo, useState } from "react";
import { Link } from "wouter";
import type { Schemas } from "../api/client";
import { useHistory, useLoads, useVolumes } from "../api/queries";
import { CreateVolume } from "../parts/CreateVolume";
import { type Column, DataTable } from "../parts/DataTable";
import { bytes, bytesPerSecond, microseconds, scaled } from "../parts/format";
import { Empty, Loaded, Page } from "../parts/Page";
import { Sparkline } from "../parts/Sparkline";
import { StateBadge } from "../parts/StateBadge";

type Volume = Schemas["Volume"];
type Loads = ReturnType<typeof useLoads>["data"];

/** Every volume with what hosts do to it; what can be done to one is on its own page. */
export function Volumes() {
  const volumes = useVolumes();
  const [creating, setCreating] = useState(false);
  const [pool, setPool] = useState("");
  const [state, setState] = useState("");
  const pools = [...new Set((volumes.data ?? []).map(place))].sort();
  return (
    <Page title="Volumes" actions={<Button onClick={() => setCreating(true)}>Create volume</Button>}>
      <Loaded of={volumes}>
        {(all) => (
          <>
            {all.length > 0 && (
              <Group gap="xs">
                <NativeSelect aria-label="Stored on" size="xs" value={pool} onChange={(event) => setPool(event.currentTarget.value)}
                  data={[{ value: "", label: "All pools and drives" }, ...pools]} />
                <NativeSelect aria-label="State" size="xs" value={state} onChange={(event) => setState(event.currentTarget.value)}
                  data={[{ value: "", label: "All states" }, "online", "offline"]} />
              </Group>
            )}
            <List volumes={all} pool={pool} state={state} />
          </>
        )}
      </Loaded>
      {creating && <CreateVolume close={() => setCreating(false)} />}
    </Page>
  );
}

/** Names that one question for histories may have. */
const NAMES_MAX = 100;

function List({ volumes, pool, state }: { volumes: Volume[]; pool: string; state: string }) {
  const loads = useLoads();
  const [inSight, setInSight] = useState<string[]>([]);
  const [names] = useDebouncedValue(inSight, 250);
  const history = useHistory({ kind: "volume", names, step_seconds: 60, seconds: 3600 });
  const seen = useCallback((rows: Volume[]) => setInSight(rows.slice(0, NAMES_MAX).map(({ name }) => name)), []);
  const rows = useMemo(
    () => volumes.filter((volume) => (!pool || place(volume) === pool) && (!state || volume.state === state)),
    [volumes, pool, state],
  );
  const lines = useMemo(() => sparklines(history.data), [history.data]);
  const columns = useMemo(() => columnsOf(loads.data, lines), [loads.data, lines]);
  return (
    <DataTable label="Volumes" rows={rows} columns={columns} id={name} text={words} seen={seen}
      empty={volumes.length > 0
        ? <Empty title="No such volumes" />
        : <Empty title="No volumes yet">Hosts connect to volumes. Create one in a pool.</Empty>} />
  );
}

const name = (volume: Volume) => volume.name;

const words = (volume: Volume) => `${volume.name} ${place(volume)} ${volume.state} ${volume.hosts.join(" ")} ${volume.tenant ?? ""} ${volume.nqn}`;

function place(volume: Volume): string {
  return volume.pool ? `pool ${volume.pool}` : `drive ${volume.drive ?? ""}`;
}

/** Reads and writes a second, each minute of the last hour, by volume. */
function sparklines(history: Schemas["History"] | undefined): Map<string, (number | null)[]> {
  return new Map((history?.objects ?? []).map(({ name, series }) => {
    const of = (metric: Schemas["HistoryMetric"]) => series.find((one) => one.metric === metric)?.values ?? [];
    const writes = of("write_iops");
    return [name, of("read_iops").map((reads, index) => reads == null ? null : reads + (writes[index] ?? 0))];
  }));
}

function columnsOf(loads: Loads, lines: Map<string, (number | null)[]>): Column<Volume>[] {
  const load = ({ name }: Volume) => loads?.get(name);
  const iops = (volume: Volume) => flows(load(volume)).reduce((sum, flow) => sum + flow.operations_per_second, 0);
  const bandwidth = (volume: Volume) => flows(load(volume)).reduce((sum, flow) => sum + flow.bytes_per_second, 0);
  const latency = (volume: Volume) => Math.max(0, ...flows(load(volume)).map((flow) => flow.operations_per_second > 0 ? flow.latency_p99_us : 0));
  const shown = (volume: Volume, text: string) => load(volume) ? text : "-";
  return [
    { title: "Name", width: 160, order: name,
      cell: (volume) => <Anchor component={Link} href={`/volumes/${volume.name}`} title={volume.nqn}>{volume.name}</Anchor>,
    },
    { title: "State", width: 92, cell: (volume) => <StateBadge state={volume.state} reason={volume.reason} />, order: (volume) => volume.state },
    { title: "Stored on", width: 115, cell: place, order: place, from: "lg" },
    { title: "Size", width: 88, cell: (volume) => bytes(volume.capacity_bytes), order: (volume) => volume.capacity_bytes, align: "right" },
    { title: "Unique", width: 88, align: "right", from: "md",
      cell: (volume) => { const held = load(volume)?.unique_bytes; return held == null ? "-" : bytes(held); },
      order: (volume) => load(volume)?.unique_bytes ?? -1,
    },
    { title: "IOPS", width: 76, cell: (volume) => shown(volume, scaled(iops(volume))), order: iops, align: "right", from: "sm" },
    { title: "Throughput", width: 114, cell: (volume) => shown(volume, bytesPerSecond(bandwidth(volume))), order: bandwidth, align: "right", from: "sm" },
    { title: "p99 latency", width: 116, cell: (volume) => latency(volume) > 0 ? microseconds(latency(volume)) : "-", order: latency, align: "right", from: "sm" },
    { title: "Last hour", width: 120, from: "md",
      cell: (volume) => <Sparkline label={`IOPS of ${volume.name}, last hour`} values={lines.get(volume.name) ?? []} />,
    },
    { title: "Hosts", width: 100, cell: hosts, order: (volume) => volume.hosts.length, from: "lg" },
  ];
}

function flows(load: Schemas["VolumeMetrics"] | undefined): Schemas["Flow"][] {
  return load ? [load.read, load.write] : [];
}

/** The first few; a line stays a line. */
function hosts({ hosts }: Volume) {
  if (hosts.length <= 2) return hosts.join(", ") || "none";
  return <Tooltip label={hosts.join(", ")} multiline maw={360}><span>{hosts.slice(0, 2).join(", ")} +{hosts.length - 2}</span></Tooltip>;
}
