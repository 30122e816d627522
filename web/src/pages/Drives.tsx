import { Button, Drawer, Progress, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { useState } from "react";
import { useDriveHealth, useDrives } from "../api/queries";
import type { Schemas } from "../api/client";
import { DataTable } from "../parts/DataTable";
import { bytes, scaled } from "../parts/format";
import { Empty, Loaded, Page } from "../parts/Page";
import { StateBadge } from "../parts/StateBadge";

type Drive = Schemas["Drive"];

/** Drives, with the wear and health of those that can tell. */
export function Drives() {
  const drives = useDrives();
  const [shown, setShown] = useState<string | null>(null);
  return (
    <Page title="Drives">
      <Loaded of={drives}>
        {(rows) => (
          <DataTable
            label="Drives"
            rows={rows}
            id={(drive) => drive.name}
            text={(drive) => `${drive.name} ${drive.state} ${origin(drive)}`}
            empty={<Empty title="No drives yet">flashyard drive add NAME --path /dev/nvme0n1 adds one.</Empty>}
            columns={[
              { title: "Name", cell: (drive) => drive.name, order: (drive) => drive.name },
              { title: "State", cell: (drive) => <StateBadge state={drive.state} reason={drive.reason} />, order: (drive) => drive.state },
              { title: "Source", cell: origin, order: origin, wide: true },
              { title: "Used by", cell: (drive) => user(drive) ?? "-", order: (drive) => user(drive) ?? "" },
              { title: "Capacity", cell: (drive) => bytes(drive.capacity_bytes), order: (drive) => drive.capacity_bytes, align: "right" },
              {
                title: "",
                align: "right",
                cell: (drive) => (
                  <Button size="compact-sm" variant="subtle" onClick={() => setShown(drive.name)} aria-label={`Health of drive ${drive.name}`}>
                    Health
                  </Button>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      <Drawer opened={shown !== null} onClose={() => setShown(null)} position="right" title={`Drive ${shown ?? ""}`}>
        {shown && <Health name={shown} />}
      </Drawer>
    </Page>
  );
}

function user(drive: Drive): string | undefined {
  return drive.volume ? `volume ${drive.volume}` : undefined;
}

function origin(drive: Drive): string {
  const spec = drive.spec;
  switch (spec.kind) {
    case "path": return spec.path;
    case "emulated": return `model of ${spec.profile}`;
    default: return spec.kind;
  }
}

function Health({ name }: { name: string }) {
  const health = useDriveHealth(name);
  return (
    <Loaded of={health}>
      {(found) => (
        <Stack>
          <Text fw={600}>{found.model}</Text>
          <SimpleGrid cols={2}>
            <Gauge label="Percentage used" percent={found.percentage_used} warns={found.percentage_used >= 80} />
            <Gauge label="Available spare" percent={found.available_spare_percent} warns={found.available_spare_percent <= 20} />
          </SimpleGrid>
          <Table aria-label={`Counters of ${name}`}>
            <Table.Tbody>
              {counters(found).map(([title, value]) => (
                <Table.Tr key={title}>
                  <Table.Th scope="row" fw={400}>{title}</Table.Th>
                  <Table.Td ta="right" style={{ fontVariantNumeric: "tabular-nums" }}>{value}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Stack>
      )}
    </Loaded>
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
