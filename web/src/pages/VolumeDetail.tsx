import { Anchor, Button, Card, Code, CopyButton, Group, MultiSelect, SimpleGrid, Text, Title } from "@mantine/core";
import { Fragment, type ReactNode, useState } from "react";
import { Link, useParams } from "wouter";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { useHosts, useLoads, useReplications, useSessions, useSnapshots, useStatus, useVolume, useVolumes } from "../api/queries";
import { Facts } from "../parts/Facts";
import { bytes, duration } from "../parts/format";
import { HistoryCharts } from "../parts/HistoryCharts";
import { NO_LIMITS, VolumeLimits } from "../parts/Limits";
import { Failure, Loaded, Page } from "../parts/Page";
import { SessionTable } from "../parts/SessionTable";
import { SnapshotTree } from "../parts/SnapshotTree";
import { StateBadge } from "../parts/StateBadge";
import { Usage } from "../parts/Usage";
import { useChange } from "../parts/useChange";
import { type Asking, VolumeActions, VolumeQuestion } from "../parts/VolumeActions";

type Volume = Schemas["Volume"];

/** One volume: what it is and did, how a host reaches it, and all that can be done to it. */
export function VolumeDetail() {
  const { name } = useParams<{ name: string }>();
  const volume = useVolume(name);
  const [asking, setAsking] = useState<Asking | null>(null);
  return (
    <Page title={`Volume ${name}`} actions={volume.data && <VolumeActions volume={volume.data} ask={setAsking} />}>
      <Loaded of={volume}>
        {(found) => (
          <>
            <Detail volume={found} ask={setAsking} />
            {asking && <VolumeQuestion volume={found} asking={asking} close={() => setAsking(null)} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Detail({ volume, ask }: { volume: Volume; ask: (asking: Asking) => void }) {
  const snapshots = useSnapshots();
  const volumes = useVolumes();
  const own = (name: string) => (snapshots.data ?? []).some((one) => one.name === name && one.volume === volume.name && one.pool === volume.pool);
  return (
    <>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Facts label="Properties" title="Properties" rows={useProperties(volume)} />
        {volume.nqn && <Connect volume={volume} />}
      </SimpleGrid>
      <HistoryCharts kind="volume" name={volume.name} />
      <Hosts key={volume.hosts.join()} volume={volume} />
      <Sessions nqn={volume.nqn} />
      <VolumeLimits key={JSON.stringify(volume.limits)} volume={volume.name} limits={volume.limits ?? NO_LIMITS} inPool={Boolean(volume.pool)} />
      {volume.pool && (
        <>
          <Card withBorder>
            <Title order={2} size="h5" mb="xs">Snapshots and clones</Title>
            <Loaded of={snapshots}>
              {(found) => (
                <SnapshotTree
                  volume={volume}
                  volumes={volumes.data ?? []}
                  snapshots={found.filter((snapshot) => snapshot.pool === volume.pool)}
                  clone={(snapshot) => ask({ what: "clone", snapshot })}
                  rollback={(snapshot) => ask({ what: "rollback", snapshot })}
                  forget={(snapshot) => ask({ what: "forget", snapshot })}
                />
              )}
            </Loaded>
          </Card>
          <Usage pool={volume.pool} only={(name, snapshot) => snapshot ? own(name) : name === volume.name} />
        </>
      )}
    </>
  );
}

/** Who uses it now, and over which addresses. */
function Sessions({ nqn }: { nqn: string }) {
  const sessions = useSessions();
  return (
    <Card withBorder>
      <Title order={2} size="h5" mb="xs">Sessions</Title>
      <Loaded of={sessions}>{(all) => <SessionTable sessions={all.filter((session) => session.nqn === nqn)} />}</Loaded>
    </Card>
  );
}

function useProperties(volume: Volume): [string, ReactNode][] {
  const held = useLoads().data?.get(volume.name)?.unique_bytes;
  const replications = (useReplications().data ?? []).filter((one) => one.volume === volume.name);
  return [
    ["State", <StateBadge key="state" state={volume.state} reason={volume.reason} />],
    ["Stored on", volume.pool ? `pool ${volume.pool}` : `drive ${volume.drive}, taken whole`],
    ["Size", bytes(volume.capacity_bytes)],
    ["Unique", held == null ? "-" : bytes(held)],
    ["Block size", `${volume.block_bytes} bytes`],
    ["Tenant", volume.tenant ?? "-"],
    ["Write protection", { administrator: "by the administrator", host: "by a host", none: "none" }[volume.write_protection ?? "none"]],
    ["Provisioning", volume.pool ? (volume.reserved ? "thick: space is reserved" : "thin") : "-"],
    ...(volume.replica_of ? [["Replica of", <Code key="replica">{volume.replica_of}</Code>] as [string, ReactNode]] : []),
    ...replications.map(({ name, to, standing }): [string, ReactNode] => (
      ["Replicated to", <Fragment key={name}><Anchor component={Link} href="/replications">{to}</Anchor>, lag {standing.lag_seconds == null ? "-" : duration(standing.lag_seconds)}</Fragment>]
    )),
    ["Origin", volume.origin ? `snapshot ${volume.origin}` : "-"],
    ["NQN", <Code key="nqn" style={{ whiteSpace: "normal" }}>{volume.nqn}</Code>],
    ["NSID", String(volume.nsid)],
    ["UUID", <Code key="uuid" style={{ whiteSpace: "normal" }}>{volume.uuid}</Code>],
  ];
}

/** The lines that a Linux host connects with, one for each address of the node. */
function Connect({ volume }: { volume: Volume }) {
  const status = useStatus(volume.name);
  const overTcp = status.data?.nvme_addresses ?? [];
  const overRdma = status.data?.nvme_rdma_addresses ?? [];
  const served = [
    ...overTcp.map((address) => ({ transport: "tcp", address })),
    ...overRdma.map((address) => ({ transport: "rdma", address })),
  ];
  const paths = served.length ? served : [{ transport: "tcp", address: "ADDRESS:4420" }];
  const commands = paths.map(({ transport, address }) => {
    const port = address.slice(address.lastIndexOf(":") + 1);
    const host = address.slice(0, address.lastIndexOf(":")).replace(/^\[|\]$/g, "");
    const underTls = transport === "tcp" && status.data?.nvme_tls_addresses?.includes(address);
    const tls = underTls ? " --tls" : "";
    return `nvme connect --transport ${transport} --traddr ${host} --trsvcid ${port} --nqn ${volume.nqn}${tls}`;
  });
  const lines = commands.join("\n");
  return (
    <Card withBorder>
      <Text size="sm" c="dimmed" mb="xs">On an allowed Linux host</Text>
      <Code block tabIndex={0}>{lines}</Code>
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
