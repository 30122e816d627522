import { Anchor, Code } from "@mantine/core";
import { Link } from "wouter";
import type { Schemas } from "../api/client";
import { DataTable } from "./DataTable";
import { Empty } from "./Page";

/** Sessions: who is connected to what, from where, with how many queues. */
export function SessionTable({ sessions }: { sessions: Schemas["Session"][] }) {
  return (
    <DataTable
      label="Sessions"
      rows={sessions}
      id={(session) => `${session.nqn} ${session.controller_id}`}
      text={(session) => `${session.host ?? ""} ${session.host_nqn} ${session.nqn} ${session.remote}`}
      empty={<Empty title="No host is connected">A host connects with nvme connect-all.</Empty>}
      columns={[
        {
          title: "Host",
          cell: (session) => session.host
            ? <Anchor component={Link} href={`/hosts/${session.host}`}>{session.host}</Anchor>
            : <Code>{session.host_nqn}</Code>,
          order: (session) => session.host ?? session.host_nqn,
        },
        { title: "Subsystem", cell: (session) => <Code>{session.nqn}</Code>, order: (session) => session.nqn },
        { title: "Address", cell: (session) => session.remote, order: (session) => session.remote, from: "sm" },
        { title: "Controller", cell: (session) => session.controller_id, order: (session) => session.controller_id, align: "right", from: "sm" },
        { title: "Queues", cell: (session) => session.queues, order: (session) => session.queues, align: "right" },
      ]}
    />
  );
}
