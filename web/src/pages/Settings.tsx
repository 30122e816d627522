import { Button, SimpleGrid, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { useSettings, useStatus } from "../api/queries";
import { Facts } from "../parts/Facts";
import { Consequence, type Field, FormModal, type Values } from "../parts/FormModal";
import { dateTime } from "../parts/format";
import { Loaded, Page } from "../parts/Page";

type Settings = Schemas["Settings"];
type Change = Schemas["SettingsChange"];

/** Settings that change while the node runs, and what the node is. */
export function Settings() {
  const settings = useSettings();
  const status = useStatus();
  const [changing, setChanging] = useState<Part | null>(null);
  return (
    <Page title="Settings">
      <Loaded of={settings}>
        {(found) => (
          <SimpleGrid cols={{ base: 1, lg: 2 }}>
            {PARTS.map((part) => (
              <Facts key={part.title} label={part.title} title={part.title} rows={part.rows(found)}
                action={<Button size="xs" variant="default" onClick={() => setChanging(part)} aria-label={`Change ${part.title.toLowerCase()}`}>Change</Button>} />
            ))}
            {changing && (
              <FormModal title={changing.title} verb="Save" close={() => setChanging(null)} fields={changing.fields(found)}
                done={() => `${changing.title} changed`}
                ask={(values) => answer(node.PATCH("/v1/settings", { body: changing.change(values) }))}>
                <Consequence>{changing.does}</Consequence>
              </FormModal>
            )}
          </SimpleGrid>
        )}
      </Loaded>
      <Loaded of={status}>
        {(found) => (
          <Facts label="Node" title="Node" rows={[
            ["Name", found.name],
            ["UUID", found.uuid],
            ["Version", found.version],
            ["Started", dateTime(found.started)],
            ["Cores", found.cores.join(", ") || "-"],
            ["Discovery", found.discovery_nqn],
            ["NVMe/TCP", found.nvme_addresses.join(", ") || "-"],
            ["NVMe/RDMA", found.nvme_rdma_addresses?.join(", ") || "-"],
          ]} />
        )}
      </Loaded>
      <Text size="sm" c="dimmed">All other settings are in the settings file, which the node reads when it starts.</Text>
    </Page>
  );
}

interface Part {
  title: string;
  does: string;
  rows: (settings: Settings) => [string, ReactNode][];
  fields: (settings: Settings) => Field[];
  change: (values: Values) => Change;
}

const LEVELS = ["error", "warn", "info", "debug", "trace"].map((level) => ({ value: level, label: level }));

const TRANSPORTS = ["udp", "tcp", "tls"].map((transport) => ({ value: transport, label: transport }));

const PARTS: Part[] = [
  {
    title: "Log level",
    does: "Holds at once, and after a restart. Levels below info write many lines, none for each request.",
    rows: ({ log_level }) => [["Log level", log_level]],
    fields: ({ log_level }) => [{ name: "log_level", label: "Log level", choices: LEVELS, initial: log_level }],
    change: ({ log_level }) => ({ log_level: log_level as Settings["log_level"] }),
  },
  {
    title: "Shutdown",
    does: "How long a stop waits for commands that are under way. What was acknowledged is never lost, however short it is.",
    rows: ({ shutdown_timeout_seconds }) => [["Shutdown timeout", `${shutdown_timeout_seconds} seconds`]],
    fields: ({ shutdown_timeout_seconds }) => [
      { name: "shutdown_timeout_seconds", label: "Seconds", initial: String(shutdown_timeout_seconds) },
    ],
    change: ({ shutdown_timeout_seconds }) => ({ shutdown_timeout_seconds: Number(shutdown_timeout_seconds) }),
  },
  {
    title: "Scrub",
    does: "How often each pool is checked as a whole. A shorter interval finds bad blocks sooner and reads the drives more. 0 is never.",
    rows: ({ scrub_interval_days: days }) => [["Scrub interval", days === 0 ? "never" : `${days} days`]],
    fields: ({ scrub_interval_days }) => [{ name: "scrub_interval_days", label: "Days", initial: String(scrub_interval_days) }],
    change: ({ scrub_interval_days }) => ({ scrub_interval_days: Number(scrub_interval_days) }),
  },
  {
    title: "Graphite receiver",
    does: "Figures go there from now on. An empty address ends it.",
    rows: ({ graphite }) => [
      ["Address", graphite?.address ?? "none"],
      ["Prefix", graphite?.prefix ?? "-"],
      ["Interval", graphite?.interval_seconds ? `${graphite.interval_seconds} seconds` : "-"],
    ],
    fields: ({ graphite }) => [
      { name: "address", label: "Address", example: "graphite.example:2003", initial: graphite?.address ?? "", optional: true },
      { name: "prefix", label: "Prefix", initial: graphite?.prefix ?? "flashyard", optional: true },
      { name: "seconds", label: "Seconds between two batches", initial: String(graphite?.interval_seconds ?? 10), optional: true },
    ],
    change: ({ address, prefix, seconds }) => ({
      graphite: address
        ? { address, ...(prefix ? { prefix } : {}), ...(seconds ? { interval_seconds: Number(seconds) } : {}) }
        : null,
    }),
  },
  {
    title: "Syslog receiver",
    does: "Events and lines of the audit log go there from now on. An empty address ends it.",
    rows: ({ syslog }) => [
      ["Address", syslog?.address ?? "none"],
      ["Transport", syslog?.transport ?? "-"],
      ["Authority", syslog?.transport === "tls" ? (syslog.ca_certificate ? "own certificate" : "those of the system") : "-"],
    ],
    fields: ({ syslog }) => [
      { name: "address", label: "Address", example: "logs.example:6514", initial: syslog?.address ?? "", optional: true },
      { name: "transport", label: "Transport", choices: TRANSPORTS, initial: syslog?.transport ?? "tls" },
      {
        name: "authority", label: "Certificate of the authority, as PEM", kind: "lines", optional: true, initial: syslog?.ca_certificate ?? "",
        hint: "With TLS. While it is empty, the authorities of the system count.",
      },
    ],
    change: ({ address, transport, authority }) => ({
      syslog: address
        ? { address, transport: transport as Schemas["SyslogTransport"], ...(authority ? { ca_certificate: authority } : {}) }
        : null,
    }),
  },
];
