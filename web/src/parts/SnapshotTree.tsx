import { Anchor, Button, Group, Text } from "@mantine/core";
import { Link } from "wouter";
import type { Schemas } from "../api/client";
import { bytes } from "./format";
import { Empty } from "./Page";

interface Props {
  volume: Schemas["Volume"];
  volumes: Schemas["Volume"][];
  /** Those of the volume's pool. */
  snapshots: Schemas["Snapshot"][];
  clone: (snapshot: string) => void;
  rollback: (snapshot: string) => void;
  forget: (snapshot: string) => void;
}

/** A volume's snapshots, and below each the volumes that were cloned from it. */
export function SnapshotTree({ volume, volumes, snapshots, clone, rollback, forget }: Props) {
  const own = snapshots.filter((snapshot) => snapshot.volume === volume.name || snapshot.name === volume.origin);
  if (own.length === 0) {
    return <Empty title="No snapshots yet">A snapshot keeps the volume as it is now, and takes no space until blocks are written anew.</Empty>;
  }
  return (
    <ul style={{ margin: 0, paddingInlineStart: "1.25rem" }} aria-label={`Snapshots of ${volume.name}`}>
      {own.map((snapshot) => (
        <li key={snapshot.name}>
          <Group gap="xs" justify="space-between">
            <Text size="sm">
              {snapshot.name} <Text span c="dimmed">{bytes(snapshot.bytes)}{snapshot.name === volume.origin && ", this volume came from it"}</Text>
            </Text>
            <Group gap={4}>
              <Action title="Clone" of={snapshot.name} act={clone} />
              {snapshot.volume === volume.name && <Action title="Roll back" of={snapshot.name} act={rollback} />}
              <Action title="Delete" of={snapshot.name} act={forget} dangerous />
            </Group>
          </Group>
          <Clones of={snapshot.name} volumes={volumes.filter((other) => other.name !== volume.name)} />
        </li>
      ))}
    </ul>
  );
}

function Clones({ of, volumes }: { of: string; volumes: Schemas["Volume"][] }) {
  const clones = volumes.filter((volume) => volume.origin === of);
  if (clones.length === 0) return null;
  return (
    <ul style={{ paddingInlineStart: "1.25rem" }}>
      {clones.map((clone) => (
        <li key={clone.name}>
          <Text size="sm">volume <Anchor component={Link} href={`/volumes/${clone.name}`}>{clone.name}</Anchor></Text>
        </li>
      ))}
    </ul>
  );
}

interface ActionProps {
  title: string;
  of: string;
  act: (snapshot: string) => void;
  dangerous?: boolean;
}

function Action({ title, of, act, dangerous }: ActionProps) {
  return (
    <Button size="compact-xs" variant="subtle" color={dangerous ? "red" : undefined} onClick={() => act(of)} aria-label={`${title} ${of}`}>
      {title}
    </Button>
  );
}
