import { Button, Group, Modal, MultiSelect, NativeSelect, Stack, Switch, TextInput } from "@mantine/core";
import { useState } from "react";
import { answer, node, Refusal, type Schemas } from "../api/client";
import { useHosts, useRoom } from "../api/queries";
import { bytes, parseSize } from "./format";
import { Empty, Failure, Loaded } from "./Page";
import { useChange } from "./useChange";

/** Asks for a new volume's name, pool, size and hosts. With `snapshot`, for a clone of that. */
export function CreateVolume({ close, snapshot }: { close: () => void; snapshot?: OfPool | undefined }) {
  const room = useRoom();
  return (
    <Modal opened onClose={close} title={snapshot ? `Clone of snapshot ${snapshot.name}` : "Create volume"}>
      {snapshot
        ? <Form pools={[]} snapshot={snapshot} close={close} />
        : (
          <Loaded of={room}>
            {(pools) => pools.length === 0
              ? <Empty title="There is no pool yet">A volume needs a pool: create one, or have one granted to your tenant.</Empty>
              : <Form pools={pools} close={close} />}
          </Loaded>
        )}
    </Modal>
  );
}

/** A snapshot, which another pool may have one of the same name of. */
export interface OfPool {
  pool: string;
  name: string;
}

interface FormProps {
  pools: { name: string; left: number; granted: boolean }[];
  snapshot?: OfPool | undefined;
  close: () => void;
}

function Form({ pools, snapshot, close }: FormProps) {
  const known = useHosts();
  const [name, setName] = useState("");
  const [pool, setPool] = useState(pools[0]?.name ?? "");
  const [size, setSize] = useState("10GiB");
  const [hosts, setHosts] = useState<string[]>([]);
  const [block, setBlock] = useState("4096");
  const [thick, setThick] = useState(false);
  const wanted = parseSize(size);
  const place = snapshot
    ? { pool: snapshot.pool, snapshot: snapshot.name }
    : { pool, size: size.replaceAll(" ", ""), block_bytes: Number(block) as Schemas["BlockSize"], reserved: thick };
  const create = useChange(
    () => answer(node.PUT("/v1/volumes/{name}", { params: { path: { name } }, body: { ...place, hosts } })),
    () => `Volume ${name} created`,
  );
  const fault = create.error instanceof Refusal ? create.error : undefined;
  const sizeError = wanted ? fault?.field === "size" && fault.message : "A number and a suffix, such as 10GiB or 2TB";
  return (
    <form onSubmit={(event) => { event.preventDefault(); create.mutate(undefined, { onSuccess: close }); }}>
      <Stack>
        <TextInput label="Name" required value={name} data-autofocus error={fault?.field === "name" && fault.message}
          onChange={(event) => setName(event.currentTarget.value)} />
        {!snapshot && (
          <>
            <NativeSelect label="Pool" value={pool} onChange={(event) => setPool(event.currentTarget.value)}
              data={pools.map(({ name, left, granted }) => ({ value: name, label: `${name}, ${bytes(left)} ${granted ? "left of your grant" : "free"}` }))} />
            <TextInput label="Size" required value={size} error={sizeError}
              description={pools.some(({ granted }) => granted)
                ? "Counts in full against your grant, and so does each snapshot."
                : "Thin: space is taken when blocks are written, so the size may exceed the free space."}
              onChange={(event) => setSize(event.currentTarget.value)} />
            <Switch label="Thick" checked={thick} onChange={(event) => setThick(event.currentTarget.checked)}
              description="Space for all of it is reserved now, so that its writes never lack any." />
            <NativeSelect label="Blocks" value={block} onChange={(event) => setBlock(event.currentTarget.value)}
              data={[{ value: "4096", label: "4096 bytes" }, { value: "512", label: "512 bytes, for hosts that need it" }]} />
          </>
        )}
        <MultiSelect label="Allowed hosts" value={hosts} onChange={setHosts} searchable
          data={["any", ...(known.data ?? []).map((host) => host.name)]}
          description="No host sees it while this is empty." />
        {create.error && !["name", "size"].includes(fault?.field ?? "") && <Failure error={create.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>Cancel</Button>
          <Button type="submit" loading={create.isPending} disabled={!name || (!snapshot && !wanted)}>Create</Button>
        </Group>
      </Stack>
    </form>
  );
}
