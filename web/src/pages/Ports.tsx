import { Button } from "@mantine/core";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { usePorts } from "../api/queries";
import { DataTable } from "../parts/DataTable";
import { Consequence, FormModal } from "../parts/FormModal";
import { Empty, Loaded, Page } from "../parts/Page";
import { StateBadge } from "../parts/StateBadge";

type Port = Schemas["Port"];

/** Addresses that the node listens on for hosts, and how usable each is as a path. */
export function Ports() {
  const ports = usePorts();
  const [changing, setChanging] = useState<Port | null>(null);
  return (
    <Page title="Ports">
      <Loaded of={ports}>
        {(rows) => (
          <DataTable
            label="Ports"
            rows={rows}
            id={(port) => String(port.id)}
            text={(port) => `${port.address} ${port.advertise ?? ""} ${port.path}`}
            empty={<Empty title="No ports">The settings file says where the node listens.</Empty>}
            columns={[
              { title: "Port", cell: (port) => port.id, order: (port) => port.id, from: "sm" },
              { title: "Address", cell: (port) => port.address, order: (port) => port.address },
              { title: "Transport", cell: (port) => port.transport ?? "tcp", order: (port) => port.transport ?? "tcp", from: "sm" },
              { title: "Advertised", cell: (port) => port.advertise ?? "-", order: (port) => port.advertise ?? "", from: "sm" },
              { title: "TLS", cell: (port) => port.tls ? "required" : "-", order: (port) => Number(port.tls ?? false), from: "sm" },
              { title: "Path", cell: (port) => <StateBadge state={port.fault ? "offline" : port.path} reason={port.fault} />, order: (port) => port.path },
              { title: "Pools", cell: (port) => poolStates(port) || "-", order: poolStates, from: "sm" },
              {
                title: "",
                align: "right",
                cell: (port) => (
                  <Button size="compact-sm" variant="subtle" onClick={() => setChanging(port)} aria-label={`Change the path of port ${port.id}`}>
                    Change
                  </Button>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      {changing && <Change port={changing} close={() => setChanging(null)} />}
    </Page>
  );
}

/** States that pools have of their own at a port. */
function poolStates(port: Port): string {
  const states = Object.entries(port.pools ?? {});
  return states.map(([pool, path]) => `${pool}: ${path.replaceAll("_", "-")}`).join(", ");
}

function Change({ port, close }: { port: Port; close: () => void }) {
  return (
    <FormModal title={`Path of port ${port.id}`} verb="Change" close={close}
      ask={({ path }) => answer(node.PATCH("/v1/ports/{id}", {
        params: { path: { id: port.id } }, body: { path: path as Schemas["PathState"] },
      }))}
      done={({ path }) => `Port ${port.id} is ${path?.replaceAll("_", "-")}`}
      fields={[{
        name: "path", label: "ANA state", initial: port.path,
        choices: [
          { value: "optimized", label: "optimized: hosts prefer it" },
          { value: "non_optimized", label: "non-optimized: hosts use it when no better one is left" },
          { value: "change", label: "change: hosts wait, for 10 seconds at most" },
          { value: "inaccessible", label: "inaccessible: hosts do not use it" },
          { value: "persistent_loss", label: "persistent-loss: hosts do not use it, for good" },
        ],
      }]}>
      <Consequence>
        Connected hosts hear of it at once and move their I/O. A host all of whose paths are inaccessible waits, and fails
        its I/O when it has waited for long.
      </Consequence>
    </FormModal>
  );
}
