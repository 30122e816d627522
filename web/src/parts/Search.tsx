import { Anchor, Button, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useDisclosure, useHotkeys } from "@mantine/hooks";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { useDrives, useHosts, usePools, useSnapshots, useTenants, useVolumes } from "../api/queries";
import { Empty } from "./Page";

interface Found {
  kind: string;
  name: string;
  /** More that is known of it. */
  more: string;
  href: string;
}

const SHOWN_MAX = 30;

/** Finds any object by a part of its name, NQN, address or identifier. */
export function Search() {
  const [opened, { open, close }] = useDisclosure();
  useHotkeys([["/", open], ["mod+K", open]]);
  return (
    <>
      <Button variant="default" size="xs" px="sm" onClick={open} aria-label="Search (press /)">Search</Button>
      <Modal opened={opened} onClose={close} title="Search" size="lg">
        {opened && <Question close={close} />}
      </Modal>
    </>
  );
}

function Question({ close }: { close: () => void }) {
  const [text, setText] = useState("");
  const [, go] = useLocation();
  const objects = useObjects();
  const wanted = text.trim().toLowerCase();
  const found = wanted ? ranked(objects, wanted) : [];
  const first = found[0];
  return (
    <form onSubmit={(event) => { event.preventDefault(); if (first) { go(first.href); close(); } }}>
      <Stack>
        <TextInput data-autofocus aria-label="Search for" value={text} onChange={(event) => setText(event.currentTarget.value)}
          placeholder="Volume, pool, drive, host, snapshot, tenant: name, NQN, path or UUID" />
        <Stack gap={4} component="ul" m={0} p={0} style={{ listStyle: "none" }} aria-label="Found">
          {found.slice(0, SHOWN_MAX).map(({ kind, name, more, href }) => (
            <li key={`${kind} ${name} ${href}`}>
              <Anchor component={Link} href={href} onClick={close}>{name}</Anchor>
              <Text span size="sm" c="dimmed"> {kind}{more && `, ${more}`}</Text>
            </li>
          ))}
        </Stack>
        <Text size="sm" c="dimmed" role="status">
          {wanted && found.length > SHOWN_MAX && `The first ${SHOWN_MAX} of ${found.length}`}
        </Text>
        {wanted && found.length === 0 && <Empty title="Nothing is called that" />}
      </Stack>
    </form>
  );
}

function useObjects(): Found[] {
  const volumes = useVolumes();
  const pools = usePools();
  const drives = useDrives();
  const hosts = useHosts();
  const snapshots = useSnapshots();
  const tenants = useTenants();
  return [
    ...(volumes.data ?? []).map(({ name, pool, nqn, uuid }) => (
      { kind: "volume", name, more: `${pool ? `pool ${pool}, ` : ""}${nqn}, ${uuid}`, href: `/volumes/${name}` })),
    ...(pools.data ?? []).map(({ name, id }) => ({ kind: "pool", name, more: id, href: `/pools/${name}` })),
    ...(drives.data ?? []).map(({ name, spec }) => (
      { kind: "drive", name, more: spec.kind === "path" ? spec.path : spec.kind, href: `/drives/${name}` })),
    ...(hosts.data ?? []).map(({ name, nqn }) => ({ kind: "host", name, more: nqn, href: `/hosts/${name}` })),
    ...(snapshots.data ?? []).map(({ name, volume, pool }) => (
      { kind: "snapshot", name, more: volume ? `volume ${volume}` : `pool ${pool}`, href: volume ? `/volumes/${volume}` : "/snapshots" })),
    ...(tenants.data ?? []).map(({ name }) => ({ kind: "tenant", name, more: "", href: `/tenants/${name}` })),
  ];
}

/** Names that begin with what is wanted come first, then names that hold it, then the rest. */
function ranked(objects: Found[], wanted: string): Found[] {
  const rank = ({ name, more }: Found) => {
    const at = name.toLowerCase().indexOf(wanted);
    if (at === 0) return 0;
    if (at > 0) return 1;
    return more.toLowerCase().includes(wanted) ? 2 : 3;
  };
  const found = objects.map((object) => ({ object, rank: rank(object) })).filter(({ rank }) => rank < 3);
  return found.sort((a, b) => a.rank - b.rank).map(({ object }) => object);
}
