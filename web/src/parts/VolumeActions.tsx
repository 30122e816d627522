import { Button, Group, Menu, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import type { Schemas } from "../api/client";
import { answer, node, Refusal } from "../api/client";
import { Confirm } from "./Confirm";
import { CreateVolume } from "./CreateVolume";
import { Consequence, FormModal } from "./FormModal";
import { bytes, parseSize } from "./format";
import { Failure } from "./Page";
import { useChange } from "./useChange";

type Volume = Schemas["Volume"];

export type Asking =
  | { what: "resize" | "snapshot" | "delete" | "rename" | "reserve" | "protect" | "promote" }
  | { what: "clone" | "rollback" | "forget"; snapshot: string };

/** The buttons of what can be done to a volume. */
export function VolumeActions({ volume, ask }: { volume: Volume; ask: (asking: Asking) => void }) {
  return (
    <>
      {volume.replica_of && <Button onClick={() => ask({ what: "promote" })}>Promote</Button>}
      {volume.pool && <Button variant="default" onClick={() => ask({ what: "resize" })}>Resize</Button>}
      {volume.pool && <Button variant="default" onClick={() => ask({ what: "snapshot" })}>Snapshot</Button>}
      <Menu>
        <Menu.Target><Button variant="default">More</Button></Menu.Target>
        <Menu.Dropdown>
          {volume.pool && <Menu.Item onClick={() => ask({ what: "rename" })}>Rename</Menu.Item>}
          {volume.pool && <Menu.Item onClick={() => ask({ what: "reserve" })}>{volume.reserved ? "Make thin" : "Make thick"}</Menu.Item>}
          <Menu.Item onClick={() => ask({ what: "protect" })}>{volume.write_protection ? "Lift write protection" : "Write protect"}</Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Button color="red" variant="light" onClick={() => ask({ what: "delete" })}>Delete</Button>
    </>
  );
}

/** The question that goes with a button. */
export function VolumeQuestion({ volume, asking, close }: { volume: Volume; asking: Asking; close: () => void }) {
  switch (asking.what) {
    case "resize": return <Resize volume={volume} close={close} />;
    case "snapshot": return <TakeSnapshot volume={volume.name} close={close} />;
    case "rename": return <Rename volume={volume.name} close={close} />;
    case "reserve": return <Reserve volume={volume} close={close} />;
    case "protect": return <Protect volume={volume} close={close} />;
    case "clone": return volume.pool
      ? <CreateVolume snapshot={{ pool: volume.pool, name: asking.snapshot }} close={close} />
      : null;
    default: return <LastQuestion volume={volume.name} pool={volume.pool ?? ""} asking={asking} close={close} />;
  }
}

function Rename({ volume, close }: { volume: string; close: () => void }) {
  const [, go] = useLocation();
  return (
    <FormModal title={`Rename ${volume}`} verb="Rename" close={close} done={({ name }) => `Volume ${volume} is now ${name}`}
      fields={[{ name: "name", label: "Name", initial: volume }]}
      ask={async ({ name = "" }) => {
        await answer(node.POST("/v1/volumes/{name}/rename", { params: { path: { name: volume } }, body: { name } }));
        go(`/volumes/${name}`);
      }}>
      <Consequence>Hosts notice nothing: the NQN stays. The history of the former name is no longer shown.</Consequence>
    </FormModal>
  );
}

function Reserve({ volume, close }: { volume: Volume; close: () => void }) {
  const thick = !volume.reserved;
  return (
    <FormModal title={`Make ${volume.name} ${thick ? "thick" : "thin"}`} verb={thick ? "Reserve" : "Release"} close={close} fields={[]}
      done={() => `Volume ${volume.name} is ${thick ? "thick" : "thin"}`}
      ask={() => answer(node.POST("/v1/volumes/{name}/reserve", { params: { path: { name: volume.name } }, body: { reserved: thick } }))}>
      <Consequence>
        {thick
          ? `Space for all of its ${bytes(volume.capacity_bytes)} is taken from the pool's free space, so that its writes never lack any.`
          : "Its unused space is free for others again. When the pool is full, its writes fail like those of all thin volumes."}
      </Consequence>
    </FormModal>
  );
}

function Protect({ volume, close }: { volume: Volume; close: () => void }) {
  const on = !volume.write_protection;
  return (
    <FormModal title={on ? `Write protect ${volume.name}` : `Let hosts write to ${volume.name}`} verb={on ? "Protect" : "Lift"} close={close} fields={[]}
      done={() => `Volume ${volume.name} is ${on ? "write protected" : "write protected no more"}`}
      ask={() => answer(node.POST("/v1/volumes/{name}/protect", { params: { path: { name: volume.name } }, body: { protected: on } }))}>
      <Consequence>
        {on
          ? "No host writes to it from now on, and none can lift that. Writes of mounted file systems fail: unmount them first, or mount them read-only."
          : "Every host that sees it may write again."}
      </Consequence>
    </FormModal>
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
      } else if (asking.what === "promote") {
        await answer(node.POST("/v1/volumes/{name}/promote", { params: { path: { name: volume } } }));
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
  promote: {
    title: (volume) => `Promote replica ${volume}`,
    consequence: "It becomes a volume as of its last copy, and hosts may be allowed on it. Its original's node copies to it no more, and what was written there since is not here.",
    verb: "Promote",
    done: (volume) => `Volume ${volume} is a replica no more`,
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
