import { Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { Failure } from "./Page";

interface Props {
  title: string;
  /** What will be gone, in one or two sentences. */
  consequence: string;
  /** The name that has to be typed before the button works. */
  name: string;
  verb: string;
  pending: boolean;
  error: Error | null;
  confirm: () => void;
  close: () => void;
}

/** The last question before data goes: the object's name has to be typed. */
export function Confirm({ title, consequence, name, verb, pending, error, confirm, close }: Props) {
  const [typed, setTyped] = useState("");
  return (
    <Modal opened onClose={close} title={title}>
      <form onSubmit={(event) => { event.preventDefault(); if (typed === name) confirm(); }}>
        <Stack>
          <Text>{consequence}</Text>
          <TextInput
            label={`Type ${name} to confirm`}
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            autoComplete="off"
            data-autofocus
          />
          {error && <Failure error={error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>Cancel</Button>
            <Button color="red" type="submit" disabled={typed !== name} loading={pending}>{verb}</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
