import { Button, Group, Menu } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { useDrives } from "../api/queries";
import { Confirm } from "./Confirm";
import { bytes } from "./format";
import { Consequence, FormModal } from "./FormModal";
import { Failure } from "./Page";
import { useChange } from "./useChange";

type Pool = Schemas["Pool"];
type Asking = "add" | "export" | "destroy";

/** What can be done to a pool as a whole. */
export function PoolActions({ pool, scrubbing }: { pool: Pool; scrubbing: boolean }) {
  const [asking, setAsking] = useState<Asking | null>(null);
  const at = { params: { path: { name: pool.name } } };
  const scrub = useChange(
    () => scrubbing ? answer(node.DELETE("/v1/pools/{name}/scrub", at)) : answer(node.POST("/v1/pools/{name}/scrub", at)),
    () => `Scrub of ${pool.name} ${scrubbing ? "stopped" : "started"}`,
  );
  const close = () => setAsking(null);
  return (
    <>
      <Group gap="xs">
        <Button variant="default" loading={scrub.isPending} onClick={() => scrub.mutate(undefined)}>{scrubbing ? "Stop scrub" : "Scrub"}</Button>
        <Button variant="default" onClick={() => setAsking("add")}>Add drive</Button>
        <Menu>
          <Menu.Target><Button variant="light" color="red">More</Button></Menu.Target>
          <Menu.Dropdown>
            <Menu.Item onClick={() => setAsking("export")}>Export</Menu.Item>
            <Menu.Item color="red" onClick={() => setAsking("destroy")}>Destroy</Menu.Item>
          </Menu.Dropdown>
        </Menu>
      </Group>
      {scrub.error && <Failure error={scrub.error} />}
      {asking === "add" && <AddDrive pool={pool.name} close={close} />}
      {(asking === "export" || asking === "destroy") && <LastQuestion pool={pool} asking={asking} close={close} />}
    </>
  );
}

function AddDrive({ pool, close }: { pool: string; close: () => void }) {
  const drives = useDrives();
  if (!drives.data) return null;
  const idle = drives.data.filter((drive) => !drive.pool && !drive.volume);
  return (
    <FormModal title={`Add a drive to ${pool}`} verb="Add" close={close} dangerous done={({ drive }) => `Drive ${drive} added to ${pool}`}
      ask={({ drive = "", force }) => answer(node.PUT("/v1/pools/{name}/drives/{drive}", {
        params: { path: { name: pool, drive }, query: force ? { force: true } : {} },
      }))}
      fields={[
        { name: "drive", label: "Drive", choices: idle.map(({ name, capacity_bytes }) => ({ value: name, label: `${name}, ${bytes(capacity_bytes)}` })) },
        { name: "force", label: "Take it even if it carries something", kind: "switch" },
      ]}>
      <Consequence lost>All that is on the drive is lost.</Consequence>
      <Consequence>It takes the place of a member that is missing, or makes the pool larger. Data is then spread over it.</Consequence>
    </FormModal>
  );
}

function LastQuestion({ pool, asking, close }: { pool: Pool; asking: "export" | "destroy"; close: () => void }) {
  const [, go] = useLocation();
  const at = { params: { path: { name: pool.name } } };
  const exports = asking === "export";
  const change = useChange(
    async () => {
      await answer(exports ? node.POST("/v1/pools/{name}/export", at) : node.DELETE("/v1/pools/{name}", at));
      go("/pools");
    },
    () => `Pool ${pool.name} ${exports ? "exported" : "destroyed"}`,
  );
  const count = pool.volumes.length;
  return (
    <Confirm
      title={`${exports ? "Export" : "Destroy"} pool ${pool.name}`}
      consequence={exports
        ? `Hosts lose its ${count} volumes until the pool is imported here or elsewhere. Its data stays on the drives.`
        : `All data of the pool is lost, with its snapshots. A pool that has volumes is refused; this one has ${count}.`}
      name={pool.name}
      verb={exports ? "Export" : "Destroy"}
      pending={change.isPending}
      error={change.error}
      confirm={() => change.mutate(undefined, { onSuccess: close })}
      close={close}
    />
  );
}
