import { Anchor, Button, Card, Code, Group, SimpleGrid, Text, Title } from "@mantine/core";
import { useState } from "react";
import { Link, useParams } from "wouter";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { useHosts, useSessions } from "../api/queries";
import { Confirm } from "../parts/Confirm";
import { Facts } from "../parts/Facts";
import { Consequence, FormModal, type Values } from "../parts/FormModal";
import { Empty, Loaded, Page } from "../parts/Page";
import { Secret } from "../parts/Secret";
import { SessionTable } from "../parts/SessionTable";
import { useChange } from "../parts/useChange";

type Host = Schemas["Host"];
type Told = { label: string; value: string }[];
type Asking = "generate" | "set" | "remove" | "generate-tls" | "set-tls" | "remove-tls";

/** One host: its volumes, its sessions and how it proves who it is. */
export function HostDetail() {
  const { name } = useParams<{ name: string }>();
  const hosts = useHosts();
  const sessions = useSessions();
  return (
    <Page title={`Host ${name}`}>
      <Loaded of={hosts}>
        {(all) => {
          const host = all.find((candidate) => candidate.name === name);
          if (!host) return <Empty title="There is no such host"><Anchor component={Link} href="/hosts">All hosts</Anchor></Empty>;
          return (
            <>
              <SimpleGrid cols={{ base: 1, md: 2 }}>
                <Facts label="Properties" title="Properties" rows={[
                  ["NQN", <Code key="nqn" style={{ whiteSpace: "normal" }}>{host.nqn}</Code>],
                  ["Tenant", host.tenant ?? "-"],
                  ["Volumes", host.volumes.length > 0 ? <Links key="volumes" volumes={host.volumes} /> : "none"],
                ]} />
                <Keys host={host} />
              </SimpleGrid>
              <Card withBorder>
                <Title order={2} size="h5" mb="xs">Sessions</Title>
                <Loaded of={sessions}>{(found) => <SessionTable sessions={found.filter((one) => one.host_nqn === host.nqn)} />}</Loaded>
              </Card>
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}

function Links({ volumes }: { volumes: string[] }) {
  return <Group gap="xs">{volumes.map((volume) => <Anchor key={volume} component={Link} href={`/volumes/${volume}`} size="sm">{volume}</Anchor>)}</Group>;
}

function Keys({ host }: { host: Host }) {
  const [asking, setAsking] = useState<Asking | null>(null);
  const [told, setTold] = useState<Told | null>(null);
  const key = host.key;
  return (
    <Card withBorder>
      <Title order={2} size="h5" mb="xs">Authentication</Title>
      <Text size="sm">
        DH-HMAC-CHAP: {key ? `${key.hash}, ${key.group === "null" ? "no group" : key.group}, ${key.mutual ? "both ways" : "one way"}` : "no secret: the host's name is believed"}
      </Text>
      <Group gap="xs" mt={4}>
        <Button size="xs" variant="default" onClick={() => setAsking("generate")}>Generate secret</Button>
        <Button size="xs" variant="default" onClick={() => setAsking("set")}>Set secret</Button>
        {key && <Button size="xs" variant="light" color="red" onClick={() => setAsking("remove")}>Remove secret</Button>}
      </Group>
      <Text size="sm" mt="md">TLS: {host.tls ? "a key is set" : "no key"}</Text>
      <Group gap="xs" mt={4}>
        <Button size="xs" variant="default" onClick={() => setAsking("generate-tls")}>Generate TLS key</Button>
        <Button size="xs" variant="default" onClick={() => setAsking("set-tls")}>Set TLS key</Button>
        {host.tls && <Button size="xs" variant="light" color="red" onClick={() => setAsking("remove-tls")}>Remove TLS key</Button>}
      </Group>
      {asking && <Question host={host.name} asking={asking} told={setTold} close={() => setAsking(null)} />}
      {told && <Secret title={`Host ${host.name}`} secrets={told} close={() => setTold(null)} />}
    </Card>
  );
}

const GROUPS = ["ffdhe2048", "null", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"]
  .map((group) => ({ value: group, label: group === "null" ? "none" : group }));

const HASHES = ["sha256", "sha384", "sha512"].map((hash) => ({ value: hash, label: hash }));

interface QuestionProps {
  host: string;
  asking: Asking;
  told: (secrets: Told) => void;
  close: () => void;
}

function Question({ host, asking, told, close }: QuestionProps) {
  const at = { params: { path: { name: host } } };
  const costs = <Consequence>The former one is worthless from now on. Connected hosts stay connected, and need the new one when they connect again.</Consequence>;
  const dhchap = (values: Values) => ({ hash: values.hash as Schemas["KeyHash"], group: values.group as Schemas["KeyGroup"] });
  const groups = [{ name: "hash", label: "Hash", choices: HASHES }, { name: "group", label: "Group", choices: GROUPS }];
  switch (asking) {
    case "generate": return (
      <FormModal title={`Secret of host ${host}`} verb="Generate" close={close} done={() => `Secret of ${host} generated`}
        fields={[...groups, { name: "mutual", label: "Both ways", kind: "switch", hint: "The node proves itself to the host, too." }]}
        ask={async (values) => {
          const made = await answer(node.POST("/v1/hosts/{name}/key", { ...at, body: { ...dhchap(values), mutual: values.mutual === "yes" } }));
          told([{ label: "secret", value: made.secret }, ...(made.controller_secret ? [{ label: "controller secret", value: made.controller_secret }] : [])]);
        }}>{costs}</FormModal>
    );
    case "set": return (
      <FormModal title={`Secret of host ${host}`} verb="Set" close={close} done={() => `Secret of ${host} set`}
        fields={[
          { name: "secret", label: "Secret", kind: "secret", example: "DHHC-1:…" },
          { name: "controller_secret", label: "Controller secret", kind: "secret", optional: true, hint: "For authentication both ways." },
          ...groups,
        ]}
        ask={(values) => answer(node.PUT("/v1/hosts/{name}/key", {
          ...at, body: { ...dhchap(values), secret: values.secret ?? "", ...(values.controller_secret ? { controller_secret: values.controller_secret } : {}) },
        }))}>{costs}</FormModal>
    );
    case "generate-tls": return (
      <FormModal title={`TLS key of host ${host}`} verb="Generate" close={close} done={() => `TLS key of ${host} generated`}
        fields={[{ name: "hash", label: "Hash", choices: HASHES.slice(0, 2) }]}
        ask={async ({ hash }) => {
          const made = await answer(node.POST("/v1/hosts/{name}/tls-key", { ...at, body: { hash: hash as Schemas["TlsHash"] } }));
          told([{ label: "key", value: made.key }]);
        }}>{costs}</FormModal>
    );
    case "set-tls": return (
      <FormModal title={`TLS key of host ${host}`} verb="Set" close={close} done={() => `TLS key of ${host} set`}
        fields={[{ name: "key", label: "Key", kind: "secret", example: "NVMeTLSkey-1:…" }]}
        ask={({ key = "" }) => answer(node.PUT("/v1/hosts/{name}/tls-key", { ...at, body: { key } }))}>{costs}</FormModal>
    );
    default: return <Removal host={host} tls={asking === "remove-tls"} close={close} />;
  }
}

function Removal({ host, tls, close }: { host: string; tls: boolean; close: () => void }) {
  const at = { params: { path: { name: host } } };
  const what = tls ? "TLS key" : "secret";
  const remove = useChange(
    () => answer(tls ? node.DELETE("/v1/hosts/{name}/tls-key", at) : node.DELETE("/v1/hosts/{name}/key", at)),
    () => `The ${what} of ${host} is removed`,
  );
  return (
    <Confirm
      title={`Remove the ${what} of ${host}`}
      consequence={tls
        ? "The host can no longer connect to ports with TLS. The key is lost: it cannot be shown or brought back."
        : "Whoever gives this host's NQN is believed from now on. The secret is lost: it cannot be shown or brought back."}
      name={host}
      verb="Remove"
      pending={remove.isPending}
      error={remove.error}
      confirm={() => remove.mutate(undefined, { onSuccess: close })}
      close={close}
    />
  );
}
