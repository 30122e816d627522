import { Alert, Button, Center, Code, Paper, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useState } from "react";

interface Props {
  /** What the node said about the token that was tried. */
  refused: string | undefined;
  enter: (token: string) => void;
}

/** Asks for a token. */
export function Login({ refused, enter }: Props) {
  const [value, setValue] = useState("");
  return (
    <Center component="main" mih="100vh" p="md">
      <Paper withBorder p="lg" w="100%" maw={420}>
        <form onSubmit={(event) => { event.preventDefault(); if (value.trim()) enter(value.trim()); }}>
          <Stack>
            <Title order={1} size="h3">Flashyard</Title>
            <Text size="sm" c="dimmed">
              This node wants a token. Its first one is in <Code>admin.token</Code> in the node's state
              directory; <Code>flashyard token create</Code> makes more.
            </Text>
            {refused && <Alert color="red" role="alert">{refused}</Alert>}
            <PasswordInput
              label="Token"
              value={value}
              onChange={(event) => setValue(event.currentTarget.value)}
              autoComplete="current-password"
              data-autofocus
            />
            <Button type="submit" disabled={!value.trim()}>Sign in</Button>
          </Stack>
        </form>
      </Paper>
    </Center>
  );
}
