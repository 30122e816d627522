import { useSessions } from "../api/queries";
import { Loaded, Page } from "../parts/Page";
import { SessionTable } from "../parts/SessionTable";

/** Who is connected, from where, with how many queues. */
export function Sessions() {
  const sessions = useSessions();
  return <Page title="Sessions"><Loaded of={sessions}>{(rows) => <SessionTable sessions={rows} />}</Loaded></Page>;
}
