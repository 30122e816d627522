import { Code } from "@mantine/core";
import { useSessions } from "../api/queries";
import { DataTable } from "../parts/DataTable";
import { Empty, Loaded, Page } from "../parts/Page";

/** Who is connected, from where, with how many queues. */
export function Sessions() {
  const sessions = useSessions();
  return (
    <Page title="Sessions">
      <Loaded of={sessions}>
        {(rows) => (
          <DataTable
            label="Sessions"
            rows={rows}
            id={(session) => `${session.nqn} ${session.controller_id}`}
            text={(session) => `${session.host ?? ""} ${session.host_nqn} ${session.nqn} ${session.remote}`}
            empty={<Empty title="No host is connected">A host connects with nvme connect-all.</Empty>}
            columns={[
              {
                title: "Host",
                cell: (session) => session.host ?? <Code>{session.host_nqn}</Code>,
                order: (session) => session.host ?? session.host_nqn,
              },
              { title: "Subsystem", cell: (session) => <Code>{session.nqn}</Code>, order: (session) => session.nqn },
              { title: "Address", cell: (session) => session.remote, order: (session) => session.remote, wide: true },
              { title: "Controller", cell: (session) => session.controller_id, order: (session) => session.controller_id, align: "right", wide: true },
              { title: "Queues", cell: (session) => session.queues, order: (session) => session.queues, align: "right" },
            ]}
          />
        )}
      </Loaded>
    </Page>
  );
}
