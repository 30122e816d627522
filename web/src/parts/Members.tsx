import { Anchor, Button, Table } from "@mantine/core";
import { useState } from "react";
import { Link } from "wouter";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { Confirm } from "./Confirm";
import { bytes } from "./format";
import { StateBadge } from "./StateBadge";
import { useChange } from "./useChange";

type Pool = Schemas["Pool"];
type Asking = { drive: string; what: "remove" | "fail" };

/** The drives of a pool; where `acts` is set, what can be done to each. */
export function Members({ pool, acts }: { pool: Pool; acts?: boolean }) {
  const [asking, setAsking] = useState<Asking | null>(null);
  return (
    <>
      <Table.ScrollContainer minWidth={300} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
        <Table aria-label={`Drives of ${pool.name}`} verticalSpacing={4} style={{ whiteSpace: "nowrap" }}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Drive</Table.Th><Table.Th>State</Table.Th><Table.Th ta="right">Size</Table.Th><Table.Th ta="right">Free</Table.Th>
              <Table.Th ta="right" visibleFrom="sm">Read errors</Table.Th><Table.Th ta="right" visibleFrom="sm">Checksum errors</Table.Th>
              {acts && <Table.Td />}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {pool.members.map((member) => (
              <Table.Tr key={member.index}>
                <Table.Td>
                  {member.drive
                    ? <Anchor component={Link} href={`/drives/${member.drive}`} size="sm">{member.drive}</Anchor>
                    : `absent (${member.id.slice(0, 8)})`}
                </Table.Td>
                <Table.Td><StateBadge state={!member.active ? "missing" : member.slow ? "slow" : "active"} /></Table.Td>
                <Table.Td ta="right">{bytes(member.bytes)}</Table.Td>
                <Table.Td ta="right">{bytes(member.free_bytes)}</Table.Td>
                <Table.Td ta="right" visibleFrom="sm">{member.read_errors}</Table.Td>
                <Table.Td ta="right" visibleFrom="sm">{member.corrupt_blocks}</Table.Td>
                {acts && (
                  <Table.Td ta="right">
                    {member.drive && <Buttons drive={member.drive} ask={setAsking} />}
                  </Table.Td>
                )}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {asking && <LastQuestion pool={pool} asking={asking} close={() => setAsking(null)} />}
    </>
  );
}

function Buttons({ drive, ask }: { drive: string; ask: (asking: Asking) => void }) {
  const action = (what: Asking["what"], verb: string) => (
    <Button size="compact-xs" variant="subtle" color="red" onClick={() => ask({ drive, what })} aria-label={`${verb} drive ${drive}`}>{verb}</Button>
  );
  return <>{action("remove", "Remove")}{action("fail", "Fail")}</>;
}

function LastQuestion({ pool, asking: { drive, what }, close }: { pool: Pool; asking: Asking; close: () => void }) {
  const at = { params: { path: { name: pool.name, drive } } };
  const fails = what === "fail";
  const change = useChange(
    async () => {
      await (fails ? answer(node.POST("/v1/pools/{name}/drives/{drive}/fail", at)) : answer(node.DELETE("/v1/pools/{name}/drives/{drive}", at)));
    },
    () => fails ? `Drive ${drive} has failed` : `Drive ${drive} is being removed`,
  );
  const left = pool.drives_to_spare ?? 0;
  const next = left <= 1 ? " The pool then has no redundancy left: the next loss of a drive takes it offline." : "";
  return (
    <Confirm
      title={`${fails ? "Fail" : "Remove"} drive ${drive}`}
      consequence={fails
        ? `The pool stops using the drive at once, and what only it holds is rebuilt from redundancy.${left === 0 ? " There is none: data is lost." : next}`
        : "Its data moves to the other drives, as a job. Redundancy stays whole meanwhile, and the pool gets smaller."}
      name={drive}
      verb={fails ? "Fail" : "Remove"}
      pending={change.isPending}
      error={change.error}
      confirm={() => change.mutate(undefined, { onSuccess: close })}
      close={close}
    />
  );
}
