import { Anchor, Button } from "@mantine/core";
import { useState } from "react";
import { Link } from "wouter";
import type { Schemas } from "../api/client";
import { answer, node, Refusal } from "../api/client";
import { useReplications, useVolumes } from "../api/queries";
import { Confirm } from "../parts/Confirm";
import { DataTable } from "../parts/DataTable";
import { Consequence, type Field, FormModal, type Values } from "../parts/FormModal";
import { dateTime, duration, parseDuration, parseSize } from "../parts/format";
import { Empty, Loaded, Page } from "../parts/Page";
import { StateBadge } from "../parts/StateBadge";
import { useChange } from "../parts/useChange";

type Replication = Schemas["Replication"];

/** Copies of volumes that this node keeps up to date on other nodes. */
export function Replications() {
  const replications = useReplications();
  const [setting, setSetting] = useState<Replication | "new" | null>(null);
  const [leaving, setLeaving] = useState<string | null>(null);
  return (
    <Page title="Replications" actions={<Button onClick={() => setSetting("new")}>Replicate a volume</Button>}>
      <Loaded of={replications}>
        {(rows) => (
          <DataTable
            label="Replications"
            rows={rows}
            id={(replication) => replication.name}
            text={(replication) => `${replication.name} ${replication.volume} ${replication.to} ${replication.pool} ${replication.standing.problem ?? ""}`}
            empty={<Empty title="No replications yet">A replication keeps a replica of a volume up to date on another node. There it is promoted when this node is lost.</Empty>}
            columns={[
              { title: "Name", cell: (replication) => replication.name, order: (replication) => replication.name },
              {
                title: "Volume",
                cell: ({ volume }) => <Anchor component={Link} href={`/volumes/${volume}`}>{volume}</Anchor>,
                order: (replication) => replication.volume,
                from: "sm",
              },
              { title: "To", cell: ({ to }) => to, order: ({ to }) => to, from: "sm" },
              { title: "Replica", cell: replica, order: replica, from: "lg" },
              { title: "Every", cell: (replication) => duration(replication.every_seconds), order: (replication) => replication.every_seconds, align: "right", from: "md" },
              { title: "Copied", cell: ({ standing }) => standing.copied ? dateTime(standing.copied) : "-", order: ({ standing }) => standing.copied ?? "", from: "lg" },
              {
                title: "Lag",
                cell: ({ standing }) => standing.lag_seconds == null ? "-" : duration(standing.lag_seconds),
                order: ({ standing }) => standing.lag_seconds ?? Infinity,
                align: "right",
              },
              { title: "State", cell: ({ standing }) => <StateBadge state={state(standing)} reason={standing.problem} />, order: ({ standing }) => state(standing) },
              {
                title: "",
                align: "right",
                cell: (replication) => (
                  <>
                    <Button size="compact-sm" variant="subtle" onClick={() => setSetting(replication)} aria-label={`Change replication ${replication.name}`}>Change</Button>
                    <Button size="compact-sm" variant="subtle" color="red" onClick={() => setLeaving(replication.name)} aria-label={`Remove replication ${replication.name}`}>Remove</Button>
                  </>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      {setting && <Setting replication={setting === "new" ? undefined : setting} close={() => setSetting(null)} />}
      {leaving && <Remove replication={leaving} close={() => setLeaving(null)} />}
    </Page>
  );
}

function replica({ replica, volume, pool }: Replication): string {
  return `${replica ?? volume}, pool ${pool}`;
}

function state({ problem, job, copied }: Schemas["ReplicationStanding"]): string {
  if (problem) return "failed";
  if (job != null) return "running";
  return copied ? "copied" : "waiting";
}

/** The body of the request, from a form's values. */
function specOf(values: Values, volume: string): Schemas["ReplicationSpec"] {
  const { to = "", pool = "", replica, token, certificate, every_seconds: every = "", bandwidth, in_the_clear: clear } = values;
  const seconds = parseDuration(every);
  if (seconds === undefined) throw new Refusal(400, { message: `"${every}"; allowed: a number and a unit, such as 30s, 5min or 1h`, field: "every_seconds" });
  const bytes = bandwidth ? parseSize(bandwidth) : null;
  if (bytes === undefined) throw new Refusal(400, { message: `"${bandwidth}"; allowed: a number and a suffix, such as 50MB`, field: "bandwidth" });
  return {
    volume, to, pool, every_seconds: seconds, in_the_clear: clear === "yes",
    ...(replica ? { replica } : {}),
    ...(token ? { token } : {}),
    ...(certificate ? { certificate: certificate.replaceAll(":", "") } : {}),
    ...(bytes === null ? {} : { bandwidth: bytes }),
  };
}

function Setting({ replication, close }: { replication?: Replication | undefined; close: () => void }) {
  const known = useVolumes();
  if (!known.data) return null;
  const inPools = known.data.filter(({ pool }) => pool);
  const made: Field[] = [
    { name: "volume", label: "Volume", choices: inPools.map(({ name, pool }) => ({ value: name, label: `${name}, pool ${pool}` })) },
    { name: "name", label: "Name", optional: true, hint: "That of the volume while this is empty." },
  ];
  return (
    <FormModal
      title={replication ? `Replication ${replication.name}` : "Replicate a volume"} verb={replication ? "Save" : "Replicate"} close={close}
      ask={async (values) => {
        const volume = replication?.volume ?? values.volume ?? "";
        const name = replication?.name ?? (values.name || volume);
        await answer(node.PUT("/v1/replications/{name}", { params: { path: { name } }, body: specOf(values, volume) }));
      }}
      done={({ name, volume }) => `Replication ${replication?.name ?? (name || volume)} is set, and a copy begins`}
      fields={[
        ...(replication ? [] : made),
        { name: "to", label: "Other node", initial: replication?.to ?? "", example: "https://node-2:4400", hint: "Address of its REST API." },
        { name: "certificate", label: "Fingerprint of its certificate", optional: true, initial: replication?.certificate ?? "", hint: "SHA-256, as that node prints it at its start. For https." },
        { name: "token", label: "Token of that node", kind: "secret", optional: Boolean(replication), hint: replication ? "The kept one stays while this is empty." : "For the role operator. This node keeps it." },
        { name: "pool", label: "Pool of that node", initial: replication?.pool ?? "" },
        { name: "replica", label: "Replica", optional: true, initial: replication?.replica ?? "", hint: "Called as the volume while this is empty." },
        { name: "every_seconds", label: "Every", initial: replication ? duration(replication.every_seconds, 4) : "5min", hint: "From the begin of one copy to that of the next." },
        { name: "bandwidth", label: "Bandwidth limit", optional: true, initial: String(replication?.bandwidth ?? ""), example: "50MB", hint: "Bytes per second that a copy reads at most." },
        { name: "in_the_clear", label: "Send data in the clear where that node has no port under TLS", kind: "switch", initial: replication?.in_the_clear ? "yes" : "" },
      ]}>
      <Consequence>
        The first copy has all of the volume, the others what changed. No host may use the replica until it is promoted there.
      </Consequence>
    </FormModal>
  );
}

function Remove({ replication, close }: { replication: string; close: () => void }) {
  const remove = useChange(
    () => answer(node.DELETE("/v1/replications/{name}", { params: { path: { name: replication } } })),
    () => `Replication ${replication} removed`,
  );
  return (
    <Confirm
      title={`Remove replication ${replication}`}
      consequence="The replica is brought up to date no more. It stays as its last copy left it, and the snapshots of both nodes stay."
      name={replication}
      verb="Remove"
      pending={remove.isPending}
      error={remove.error}
      confirm={() => remove.mutate(undefined, { onSuccess: close })}
      close={close}
    />
  );
}
