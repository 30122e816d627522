import { Button } from "@mantine/core";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { useSelf, useTenants, useTokens } from "../api/queries";
import { Confirm } from "../parts/Confirm";
import { DataTable } from "../parts/DataTable";
import { FormModal, type Values } from "../parts/FormModal";
import { dateTime } from "../parts/format";
import { Empty, Loaded, Page } from "../parts/Page";
import { Secret } from "../parts/Secret";
import { useChange } from "../parts/useChange";

type Token = Schemas["Token"];

/** Tokens: who may ask the node, and for what. */
export function Tokens() {
  const tokens = useTokens();
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<string | null>(null);
  const [made, setMade] = useState<Token | null>(null);
  return (
    <Page title="Tokens" actions={<Button onClick={() => setCreating(true)}>Create token</Button>}>
      <Loaded of={tokens}>
        {(rows) => (
          <DataTable
            label="Tokens"
            rows={rows}
            id={(token) => token.name}
            text={(token) => `${token.name} ${token.role} ${token.tenant ?? ""}`}
            empty={<Empty title="No tokens">Nobody but the node's machine can make one.</Empty>}
            columns={[
              { title: "Name", cell: (token) => token.name, order: (token) => token.name },
              { title: "Role", cell: (token) => token.role, order: (token) => token.role },
              { title: "Tenant", cell: (token) => token.tenant ?? "-", order: (token) => token.tenant ?? "", from: "sm" },
              { title: "Created", cell: (token) => dateTime(token.created), order: (token) => token.created, from: "md" },
              { title: "Expires", cell: (token) => token.expires ? dateTime(token.expires) : "never", order: (token) => token.expires ?? "~" },
              {
                title: "",
                align: "right",
                cell: (token) => (
                  <Button size="compact-sm" variant="subtle" color="red" onClick={() => setRevoking(token.name)} aria-label={`Revoke token ${token.name}`}>
                    Revoke
                  </Button>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      {creating && <Create made={setMade} close={() => setCreating(false)} />}
      {made?.secret && <Secret title={`Token ${made.name}`} secrets={[{ label: "secret", value: made.secret }]} close={() => setMade(null)} />}
      {revoking && <Revoke token={revoking} close={() => setRevoking(null)} />}
    </Page>
  );
}

function Create({ made, close }: { made: (token: Token) => void; close: () => void }) {
  const tenants = useTenants();
  const ask = async ({ name = "", role, tenant, days }: Values) => {
    const expires = days ? new Date(Date.now() + Number(days) * 86_400_000).toISOString().replace(/\.\d+Z$/, "Z") : null;
    const body = { role: role as Schemas["Role"], ...(tenant ? { tenant } : {}), ...(expires ? { expires } : {}) };
    made(await answer(node.PUT("/v1/tokens/{name}", { params: { path: { name } }, body })));
  };
  return (
    <FormModal title="Create token" verb="Create" ask={ask} done={({ name }) => `Token ${name} created`} close={close}
      fields={[
        { name: "name", label: "Name" },
        {
          name: "role", label: "Role",
          choices: [
            { value: "viewer", label: "viewer: sees all but tokens and the audit log" },
            { value: "operator", label: "operator: also volumes, hosts and snapshots" },
            { value: "admin", label: "admin: everything" },
          ],
        },
        {
          name: "tenant", label: "Tenant", optional: true, hint: "It then sees and changes what is the tenant's, and nothing else.",
          choices: [{ value: "", label: "none: the whole node" }, ...(tenants.data ?? []).map(({ name }) => ({ value: name, label: name }))],
        },
        { name: "days", label: "Days until it expires", optional: true, hint: "It never expires while this is empty.", example: "90" },
      ]}
    />
  );
}

function Revoke({ token, close }: { token: string; close: () => void }) {
  const self = useSelf();
  const revoke = useChange(
    () => answer(node.DELETE("/v1/tokens/{name}", { params: { path: { name: token } } })),
    () => `Token ${token} revoked`,
  );
  const own = self.data?.name === token ? " It is the one that you are signed in with: this page asks for another." : "";
  return (
    <Confirm
      title={`Revoke token ${token}`}
      consequence={`Whoever uses it is refused from now on. Its secret is worthless for good.${own}`}
      name={token}
      verb="Revoke"
      pending={revoke.isPending}
      error={revoke.error}
      confirm={() => revoke.mutate(undefined, { onSuccess: close })}
      close={close}
    />
  );
}
