import { Alert, Button, Code, CopyButton, Modal, Stack } from "@mantine/core";

interface Props {
  title: string;
  secrets: { label: string; value: string }[];
  close: () => void;
}

/** What the node tells once and keeps no copy of that anybody could read. */
export function Secret({ title, secrets, close }: Props) {
  return (
    <Modal opened onClose={close} title={title} closeOnClickOutside={false}>
      <Stack>
        <Alert color="yellow" title="Shown once">The node cannot show it again. Copy it before you close this.</Alert>
        {secrets.map(({ label, value }) => (
          <div key={label}>
            <Code block aria-label={label} style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{value}</Code>
            <CopyButton value={value}>
              {({ copied, copy }) => <Button mt="xs" size="xs" variant="default" onClick={copy}>{copied ? "Copied" : `Copy ${label}`}</Button>}
            </CopyButton>
          </div>
        ))}
        <Button onClick={close}>Close</Button>
      </Stack>
    </Modal>
  );
}
