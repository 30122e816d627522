import { Anchor, Button, Card, Progress, SimpleGrid, Table, Text, Title } from "@mantine/core";
import { useState } from "react";
import { Link, useLocation, useParams } from "wouter";
import { answer, node, Refusal, type Schemas } from "../api/client";
import { useDriveHealth, useDrives, usePools } from "../api/queries";
import { Administrators } from "../parts/Administrators";
import { Confirm } from "../parts/Confirm";
import { Facts } from "../parts/Facts";
import { bytes, scaled } from "../parts/format";
import { HistoryCharts } from "../parts/HistoryCharts";
import { Namespaces } from "../parts/Namespaces";
import { Empty, Loaded, Page } from "../parts/Page";
import { StateBadge } from "../parts/StateBadge";
import { useChange } from "../parts/useChange";
import { origin, user } from "./Drives";

type Drive = Schemas["Drive"];

/** One drive: its state, wear and errors, now and over 30 days, and what can be done to it. */
export function DriveDetail() {
  const { name } = useParams<{ name: string }>();
  const drives = useDrives();
  return (
    <Loaded of={drives}>
      {(all) => {
        const drive = all.find((candidate) => candidate.name === name);
        return drive
          ? <Detail drive={drive} />
          : (
            <Page title={`Drive ${name}`}>
              <Empty title="There is no such drive"><Anchor component={Link} href="/drives">All drives</Anchor></Empty>
            </Page>
          );
      }}
    </Loaded>
  );
}

function Detail({ drive }: { drive: Drive }) {
  const [asking, setAsking] = useState<"remove" | "wipe" | null>(null);
  const idle = user(drive) === undefined;
  const actions = (
    <>
      {idle && <Button variant="light" color="red" onClick={() => setAsking("wipe")}>Wipe</Button>}
      {idle && <Button variant="light" color="red" onClick={() => setAsking("remove")}>Remove</Button>}
    </>
  );
  return (
    <Page title={`Drive ${drive.name}`} actions={actions}>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Facts label="Properties" title="Properties" rows={properties(drive)} />
        <Health name={drive.name} />
      </SimpleGrid>
      <HistoryCharts kind="drive" name={drive.name} />
      <Member drive={drive.name} />
      <Namespaces drive={drive.name} />
      <Administrators drive={drive} />
      {asking && <LastQuestion drive={drive.name} asking={asking} close={() => setAsking(null)} />}
    </Page>
  );
}

function properties(drive: Drive): [string, React.ReactNode][] {
  return [
    ["State", <StateBadge key="state" state={drive.state} reason={drive.reason} />],
    ...(drive.reason ? [["Reason", drive.reason] as [string, string]] : []),
    ["Source", origin(drive)],
    ["Used by", user(drive) ?? "nothing"],
    ["Capacity", bytes(drive.capacity_bytes)],
    ["Block size", `${drive.block_bytes} bytes`],
  ];
}

function Health({ name }: { name: string }) {
  const health = useDriveHealth(name);
  const silent = health.error instanceof Refusal;
  return (
    <Card withBorder>
      <Title order={2} size="h5" mb="xs">Health</Title>
      {silent
        ? <Text size="sm" c="dimmed">The drive does not tell of its health.</Text>
        : <Loaded of={health}>{(found) => <Gauges name={name} health={found} />}</Loaded>}
    </Card>
  );
}

function Gauges({ name, health }: { name: string; health: Schemas["DriveHealth"] }) {
  return (
    <>
      <Text size="sm" mb="xs">{health.model}</Text>
      <SimpleGrid cols={2} mb="xs">
        <Gauge label="Percentage used" percent={health.percentage_used} warns={health.percentage_used >= 80} />
        <Gauge label="Available spare" percent={health.available_spare_percent} warns={health.available_spare_percent <= 20} />
      </SimpleGrid>
      <Table aria-label={`Counters of ${name}`} verticalSpacing={2}>
        <Table.Tbody>
          {counters(health).map(([title, value]) => (
            <Table.Tr key={title}>
              <Table.Th scope="row" fw={400} c="dimmed">{title}</Table.Th>
              <Table.Td ta="right" style={{ fontVariantNumeric: "tabular-nums" }}>{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </>
  );
}

function counters(health: Schemas["DriveHealth"]): [string, string][] {
  const unit = 512_000;
  return [
    ["Host writes", bytes(health.data_units_written * unit)],
    ["Host reads", bytes(health.data_units_read * unit)],
    ["Media writes", bytes(health.media_written_billions * 1e9)],
    ["Write amplification", (health.write_amplification_thousandths / 1000).toFixed(2)],
    ["Write commands", scaled(health.host_write_commands)],
    ["Read commands", scaled(health.host_read_commands)],
    ["Endurance", bytes(health.endurance_estimate_billions * 1e9)],
    ["Late completions", `${scaled(health.completed_late)}of ${scaled(health.completed)}`],
  ];
}

function Gauge({ label, percent, warns }: { label: string; percent: number; warns: boolean }) {
  return (
    <div>
      <Text size="sm" c="dimmed">{label}</Text>
      <Text fw={600}>{percent}%</Text>
      <Progress value={Math.min(100, percent)} color={warns ? "red" : "cyan"} aria-label={label} />
    </div>
  );
}

/** What the pool says of a drive that is its member. */
function Member({ drive }: { drive: string }) {
  const pools = usePools();
  const pool = (pools.data ?? []).find(({ members }) => members.some((member) => member.drive === drive));
  const member = pool?.members.find((member) => member.drive === drive);
  if (!pool || !member) return null;
  return (
    <Facts label={`Member of ${pool.name}`} title={`Member of pool ${pool.name}`} rows={[
      ["State", <StateBadge key="state" state={!member.active ? "missing" : member.slow ? "slow" : "active"} />],
      ["Size", bytes(member.bytes)],
      ["Free", bytes(member.free_bytes)],
      ["Read errors", String(member.read_errors)],
      ["Checksum errors", String(member.corrupt_blocks)],
    ]} />
  );
}

function LastQuestion({ drive, asking, close }: { drive: string; asking: "remove" | "wipe"; close: () => void }) {
  const [, go] = useLocation();
  const wipes = asking === "wipe";
  const change = useChange(
    async () => {
      const path = { params: { path: { name: drive } } };
      if (wipes) {
        await answer(node.POST("/v1/drives/{name}/wipe", { params: { ...path.params, query: { force: true } } }));
      } else {
        await answer(node.DELETE("/v1/drives/{name}", path));
        go("/drives");
      }
    },
    () => wipes ? `Drive ${drive} wiped` : `Drive ${drive} removed`,
  );
  return (
    <Confirm
      title={wipes ? `Wipe drive ${drive}` : `Remove drive ${drive}`}
      consequence={wipes
        ? "All that the drive carries is lost: labels of pools, partitions and file systems."
        : "The node forgets the drive. What is on it stays as it is."}
      name={drive}
      verb={wipes ? "Wipe" : "Remove"}
      pending={change.isPending}
      error={change.error}
      confirm={() => change.mutate(undefined, { onSuccess: close })}
      close={close}
    />
  );
}
