import { Anchor, Button, Code, Group, Modal, Stack, TextInput } from "@mantine/core";
import { useState } from "react";
import { Link } from "wouter";
import { answer, node, Refusal } from "../api/client";
import { useHosts } from "../api/queries";
import { Confirm } from "../parts/Confirm";
import { DataTable } from "../parts/DataTable";
import { Empty, Failure, Loaded, Page } from "../parts/Page";
import { useChange } from "../parts/useChange";

/** Hosts that may be given volumes. */
export function Hosts() {
  const hosts = useHosts();
  const [adding, setAdding] = useState(false);
  const [leaving, setLeaving] = useState<string | null>(null);
  const remove = useChange(
    (name: string) => answer(node.DELETE("/v1/hosts/{name}", { params: { path: { name } } })),
    (name) => `Host ${name} removed`,
  );
  const close = () => { setLeaving(null); remove.reset(); };
  return (
    <Page title="Hosts" actions={<Button onClick={() => setAdding(true)}>Add host</Button>}>
      <Loaded of={hosts}>
        {(rows) => (
          <DataTable
            label="Hosts"
            rows={rows}
            id={(host) => host.name}
            text={(host) => `${host.name} ${host.nqn} ${host.volumes.join(" ")}`}
            empty={<Empty title="No hosts yet">A host is a machine that may use volumes; it is known by its NQN.</Empty>}
            columns={[
              { title: "Name", cell: (host) => <Anchor component={Link} href={`/hosts/${host.name}`}>{host.name}</Anchor>, order: (host) => host.name },
              { title: "NQN", cell: (host) => <Code>{host.nqn}</Code>, order: (host) => host.nqn, from: "sm" },
              { title: "Volumes", cell: (host) => host.volumes.length > 3 ? `${host.volumes.slice(0, 3).join(", ")} +${host.volumes.length - 3}` : host.volumes.join(", ") || "none", order: (host) => host.volumes.length },
              { title: "Tenant", cell: (host) => host.tenant ?? "-", order: (host) => host.tenant ?? "", from: "lg" },
              { title: "Key", cell: keys, order: keys, from: "md" },
              {
                title: "",
                align: "right",
                cell: (host) => (
                  <Button size="compact-sm" variant="subtle" color="red" onClick={() => setLeaving(host.name)} aria-label={`Remove host ${host.name}`}>
                    Remove
                  </Button>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      {adding && <AddHost close={() => setAdding(false)} />}
      {leaving && (
        <Confirm
          title={`Remove host ${leaving}`}
          consequence="Its connections end and it sees no volume of this node any more."
          name={leaving}
          verb="Remove"
          pending={remove.isPending}
          error={remove.error}
          confirm={() => remove.mutate(leaving, { onSuccess: close })}
          close={close}
        />
      )}
    </Page>
  );
}

/** How the host proves who it is. */
function keys({ key, tls }: { key?: unknown; tls?: boolean }): string {
  return [key && "secret", tls && "TLS"].filter(Boolean).join(", ") || "-";
}

function AddHost({ close }: { close: () => void }) {
  const [name, setName] = useState("");
  const [nqn, setNqn] = useState("");
  const add = useChange(
    () => answer(node.PUT("/v1/hosts/{name}", { params: { path: { name } }, body: { nqn } })),
    () => `Host ${name} added`,
  );
  const fault = add.error instanceof Refusal ? add.error : undefined;
  return (
    <Modal opened onClose={close} title="Add host">
      <form onSubmit={(event) => { event.preventDefault(); add.mutate(undefined, { onSuccess: close }); }}>
        <Stack>
          <TextInput label="Name" required value={name} data-autofocus error={fault?.field === "name" && fault.message}
            onChange={(event) => setName(event.currentTarget.value)} />
          <TextInput label="NQN" required value={nqn} error={fault?.field === "nqn" && fault.message}
            description="On a Linux host: cat /etc/nvme/hostnqn" placeholder="nqn.2014-08.org.nvmexpress:uuid:…"
            onChange={(event) => setNqn(event.currentTarget.value)} />
          {add.error && !fault?.field && <Failure error={add.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>Cancel</Button>
            <Button type="submit" loading={add.isPending}>Add</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
