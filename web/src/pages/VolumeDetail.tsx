import {
  Anchor, Button, Card, Code, CopyButton, Group, Modal, MultiSelect, SimpleGrid, Stack, Table, Text, TextInput, Title,
} from "@mantine/core";
import { useState } from "react";
import { Link, useLocation, useParams } from "wouter";
import type { Schemas } from "../api/client";
import { answer, node, Refusal } from "../api/client";
import { useHosts, useSnapshots, useStatus, useVolumes } from "../api/queries";
import { Confirm } from "../parts/Confirm";
import { CreateVolume } from "../parts/CreateVolume";
import { bytes, parseSize } from "../parts/format";
import { VolumeLimits } from "../parts/Limits";
import { Empty, Failure, Loaded, Page } from "../parts/Page";
import { SnapshotTree } from "../parts/SnapshotTree";
import { StateBadge } from "../parts/StateBadge";
import { useChange } from "../parts/useChange";

type Volume = Schemas["Volume"];

/** What the node leaves out: nothing is limited. */
const NO_LIMITS: Schemas["Limits"] = { burst_ms: 10 };

/** One volume: what it is, how a host reaches it, and all that can be done to it. */
export function VolumeDetail() {
  const { name } = useParams<{ name: string }>();
  const volumes = useVolumes();
  return (
    <Loaded of={volumes}>
      {(all) => {
        const volume = all.find((candidate) => candidate.name === name);
        return volume
          ? <Detail volume={volume} all={all} />
          : (
            <Page title={`Volume ${name}`}>
              <Empty title="There is no such volume"><Anchor component={Link} href="/volumes">All volumes</Anchor></Empty>
            </Page>
          );
      }}
    </Loaded>
  );
}

type Asking = { what: "resize" | "snapshot" | "delete" } | { what: "clone" | "rollback" | "forget"; snapshot: string };

function Detail({ volume, all }: { volume: Volume; all: Volume[] }) {
  const snapshots = useSnapshots();
  const [asking, setAsking] = useState<Asking | null>(null);
  const close = () => setAsking(null);
  const actions = (
    <>
      {volume.pool && <Button variant="default" onClick={() => setAsking({ what: "resize" })}>Resize</Button>}
      {volume.pool && <Button variant="default" onClick={() => setAsking({ what: "snapshot" })}>Snapshot</Button>}
      <Button color="red" variant="light" onClick={() => setAsking({ what: "delete" })}>Delete</Button>
    </>
  );
  return (
    <Page title={`Volume ${volume.name}`} actions={actions}>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Facts volume={volume} />
        {volume.nqn && <Connect volume={volume} />}
      </SimpleGrid>
      <Hosts key={volume.hosts.join()} volume={volume} />
      <VolumeLimits key={JSON.stringify(volume.limits)} volume={volume.name} limits={volume.limits ?? NO_LIMITS} inPool={Boolean(volume.pool)} />
      {volume.pool && (
        <Card withBorder>
          <Title order={2} size="h5" mb="xs">Snapshots and clones</Title>
          <Loaded of={snapshots}>
            {(found) => (
              <SnapshotTree
                volume={volume}
                volumes={all}
                snapshots={found.filter((snapshot) => snapshot.pool === volume.pool)}
                clone={(snapshot) => setAsking({ what: "clone", snapshot })}
                rollback={(snapshot) => setAsking({ what: "rollback", snapshot })}
                forget={(snapshot) => setAsking({ what: "forget", snapshot })}
              />
            )}
          </Loaded>
        </Card>
      )}
      {asking?.what === "resize" && <Resize volume={volume} close={close} />}
      {asking?.what === "snapshot" && <TakeSnapshot volume={volume.name} close={close} />}
      {asking?.what === "clone" && volume.pool && (
        <CreateVolume snapshot={{ pool: volume.pool, name: asking.snapshot }} close={close} />
      )}
      {asking && ["delete", "rollback", "forget"].includes(asking.what) && (
        <LastQuestion volume={volume.name} pool={volume.pool ?? ""} asking={asking} close={close} />
      )}
    </Page>
  );
}

function Facts({ volume }: { volume: Volume }) {
  const rows: [string, React.ReactNode][] = [
    ["State", <StateBadge key="state" state={volume.state} reason={volume.reason} />],
    ["Stored on", volume.pool ? `pool ${volume.pool}` : `drive ${volume.drive}, taken whole`],
    ["Size", bytes(volume.capacity_bytes)],
    ["Block size", `${volume.block_bytes} bytes`],
    ["UUID", <Code key="uuid">{volume.uuid}</Code>],
  ];
  if (volume.pool) rows.push(["Provisioning", volume.reserved ? "thick: space is reserved" : "thin"]);
  if (volume.origin) rows.push(["Origin", `snapshot ${volume.origin}`]);
  return (
    <Card withBorder>
      <Table aria-label="Facts" verticalSpacing={4}>
        <Table.Tbody>
          {rows.map(([title, value]) => (
            <Table.Tr key={title}><Table.Th scope="row" fw={400} c="dimmed">{title}</Table.Th><Table.Td>{value}</Table.Td></Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}

/** The lines that a Linux host connects with, one for each address of the node. */
function Connect({ volume }: { volume: Volume }) {
  const status = useStatus();
  const addresses = status.data?.nvme_addresses.length ? status.data.nvme_addresses : ["ADDRESS:4420"];
  const commands = addresses.map((address) => {
    const port = address.slice(address.lastIndexOf(":") + 1);
    const host = address.slice(0, address.lastIndexOf(":")).replace(/^\[|\]$/g, "");
    const tls = status.data?.nvme_tls_addresses?.includes(address) ? " --tls" : "";
    return `nvme connect --transport tcp --traddr ${host} --trsvcid ${port} --nqn ${volume.nqn}${tls}`;
  });
  const lines = commands.join("\n");
  return (
    <Card withBorder>
      <Text size="sm" c="dimmed" mb="xs">On an allowed Linux host</Text>
      <Code block>{lines}</Code>
      <CopyButton value={lines}>
        {({ copied, copy }) => <Button mt="xs" size="xs" variant="default" onClick={copy}>{copied ? "Copied" : "Copy"}</Button>}
      </CopyButton>
    </Card>
  );
}

function Hosts({ volume }: { volume: Volume }) {
  const known = useHosts();
  const [chosen, setChosen] = useState(volume.hosts);
  const change = useChange(
    async () => {
      const at = (host: string) => ({ params: { path: { name: volume.name, host } } });
      for (const host of chosen.filter((host) => !volume.hosts.includes(host))) {
        await answer(node.PUT("/v1/volumes/{name}/hosts/{host}", at(host)));
      }
      for (const host of volume.hosts.filter((host) => !chosen.includes(host))) {
        await answer(node.DELETE("/v1/volumes/{name}/hosts/{host}", at(host)));
      }
    },
    () => `Hosts of ${volume.name} changed`,
  );
  const same = chosen.length === volume.hosts.length && chosen.every((host) => volume.hosts.includes(host));
  return (
    <Card withBorder>
      <Group align="end">
        <MultiSelect flex={1} label="Allowed hosts" value={chosen} onChange={setChosen} searchable
          data={["any", ...(known.data ?? []).map((host) => host.name)]}
          description="No host sees it while this is empty." />
        <Button disabled={same} loading={change.isPending} onClick={() => change.mutate(undefined)}>Save</Button>
      </Group>
      {change.error && <Failure error={change.error} />}
    </Card>
  );
}

function Resize({ volume, close }: { volume: Volume; close: () => void }) {
  const [size, setSize] = useState(bytes(volume.capacity_bytes).replace(" ", ""));
  const wanted = parseSize(size);
  const shrinks = wanted !== undefined && wanted < volume.capacity_bytes;
  const resize = useChange(
    () => answer(node.POST("/v1/volumes/{name}/resize", {
      params: { path: { name: volume.name } },
      body: { size: size.replaceAll(" ", ""), allow_shrink: shrinks },
    })),
    () => `Volume ${volume.name} resized`,
  );
  const fault = resize.error instanceof Refusal && resize.error.field === "size" ? resize.error.message : undefined;
  return (
    <Modal opened onClose={close} title={`Resize ${volume.name}`}>
      <form onSubmit={(event) => { event.preventDefault(); resize.mutate(undefined, { onSuccess: close }); }}>
        <Stack>
          <TextInput label="Size" value={size} data-autofocus onChange={(event) => setSize(event.currentTarget.value)}
            error={wanted ? fault : "A number and a suffix, such as 10GiB or 2TB"} />
          {shrinks && <Text c="red" size="sm">Data behind the new end is lost. Shrink the file system on it first.</Text>}
          {resize.error && !fault && <Failure error={resize.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>Cancel</Button>
            <Button type="submit" color={shrinks ? "red" : undefined} disabled={!wanted} loading={resize.isPending}>
              {shrinks ? "Shrink" : "Grow"}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

function TakeSnapshot({ volume, close }: { volume: string; close: () => void }) {
  const [name, setName] = useState(`${volume}-${new Date().toISOString().slice(0, 16).replace(/[-:]/g, "").toLowerCase()}`);
  const take = useChange(
    () => answer(node.PUT("/v1/snapshots/{name}", { params: { path: { name } }, body: { volume } })),
    () => `Snapshot ${name} taken`,
  );
  return (
    <Modal opened onClose={close} title={`Snapshot of ${volume}`}>
      <form onSubmit={(event) => { event.preventDefault(); take.mutate(undefined, { onSuccess: close }); }}>
        <Stack>
          <TextInput label="Name" required value={name} data-autofocus onChange={(event) => setName(event.currentTarget.value)} />
          {take.error && <Failure error={take.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>Cancel</Button>
            <Button type="submit" loading={take.isPending} disabled={!name}>Take</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

interface LastQuestionProps {
  volume: string;
  pool: string;
  asking: Asking;
  close: () => void;
}

function LastQuestion({ volume, pool, asking, close }: LastQuestionProps) {
  const [, go] = useLocation();
  const snapshot = "snapshot" in asking ? asking.snapshot : "";
  const change = useChange(
    async () => {
      if (asking.what === "rollback") {
        await answer(node.POST("/v1/volumes/{name}/rollback", { params: { path: { name: volume } }, body: { snapshot } }));
      } else if (asking.what === "forget") {
        await answer(node.DELETE("/v1/pools/{pool}/snapshots/{name}", { params: { path: { pool, name: snapshot } } }));
      } else {
        await answer(node.DELETE("/v1/volumes/{name}", { params: { path: { name: volume } } }));
        go("/volumes");
      }
    },
    () => QUESTIONS[asking.what]?.done(volume, snapshot) ?? "Done",
  );
  const question = QUESTIONS[asking.what];
  if (!question) return null;
  return (
    <Confirm
      title={question.title(volume, snapshot)}
      consequence={question.consequence}
      name={snapshot || volume}
      verb={question.verb}
      pending={change.isPending}
      error={change.error}
      confirm={() => change.mutate(undefined, { onSuccess: close })}
      close={close}
    />
  );
}

interface Question {
  title: (volume: string, snapshot: string) => string;
  consequence: string;
  verb: string;
  done: (volume: string, snapshot: string) => string;
}

const QUESTIONS: Record<string, Question> = {
  delete: {
    title: (volume) => `Delete volume ${volume}`,
    consequence: "Its data is lost and its hosts are disconnected. Its snapshots stay.",
    verb: "Delete",
    done: (volume) => `Volume ${volume} deleted`,
  },
  rollback: {
    title: (volume, snapshot) => `Roll ${volume} back to ${snapshot}`,
    consequence: "Writes since the snapshot are lost. No host may use the volume meanwhile.",
    verb: "Roll back",
    done: (volume, snapshot) => `Volume ${volume} is what ${snapshot} was`,
  },
  forget: {
    title: (_, snapshot) => `Delete snapshot ${snapshot}`,
    consequence: "Data that only this snapshot holds is lost. Volumes and clones stay as they are.",
    verb: "Delete",
    done: (_, snapshot) => `Snapshot ${snapshot} deleted`,
  },
};
