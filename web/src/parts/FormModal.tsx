import {
  Button, Group, Modal, MultiSelect, NativeSelect, PasswordInput, Stack, Switch, Text, Textarea, TextInput,
} from "@mantine/core";
import { type ReactNode, useState } from "react";
import { Refusal } from "../api/client";
import { Failure } from "./Page";
import { useChange } from "./useChange";

/** What a form asks for. A switch is "yes" or empty; several choices have commas between them. */
export interface Field {
  name: string;
  label: string;
  hint?: string;
  example?: string;
  initial?: string;
  kind?: "text" | "lines" | "secret" | "switch" | "several";
  choices?: { value: string; label: string }[];
  optional?: boolean;
}

export type Values = Record<string, string>;

interface Props {
  title: string;
  verb: string;
  fields: Field[];
  /** What it leads to, before the fields. */
  children?: ReactNode;
  ask: (values: Values) => Promise<unknown>;
  done: (values: Values) => string;
  close: () => void;
  dangerous?: boolean;
}

/** A question with fields. What the node refuses is said at the field that is at fault. */
export function FormModal({ title, verb, fields, children, ask, done, close, dangerous }: Props) {
  const [values, setValues] = useState<Values>(
    () => Object.fromEntries(fields.map(({ name, initial, choices, kind }) => (
      [name, initial ?? (kind === "several" ? "" : choices?.[0]?.value ?? "")]
    ))),
  );
  const change = useChange(ask, done);
  const fault = change.error instanceof Refusal ? change.error : undefined;
  const known = fields.some(({ name }) => name === fault?.field);
  const missing = fields.some(({ name, optional, kind }) => !optional && kind !== "switch" && !values[name]);
  return (
    <Modal opened onClose={close} title={title}>
      <form onSubmit={(event) => { event.preventDefault(); change.mutate(values, { onSuccess: close }); }}>
        <Stack>
          {children}
          {fields.map((field, index) => (
            <Input key={field.name} field={field} first={index === 0} value={values[field.name] ?? ""}
              error={fault?.field === field.name ? fault.message : undefined}
              set={(value) => setValues({ ...values, [field.name]: value })} />
          ))}
          {change.error && !known && <Failure error={change.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>Cancel</Button>
            <Button type="submit" color={dangerous ? "red" : undefined} disabled={missing} loading={change.isPending}>{verb}</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

interface InputProps {
  field: Field;
  first: boolean;
  value: string;
  error: string | undefined;
  set: (value: string) => void;
}

function Input({ field, first, value, error, set }: InputProps) {
  const { kind = "text", label, hint, example, choices, optional } = field;
  const common = { label, description: hint, error, "data-autofocus": first || undefined };
  if (kind === "switch") {
    return <Switch {...common} checked={value === "yes"} onChange={(event) => set(event.currentTarget.checked ? "yes" : "")} />;
  }
  if (kind === "several") {
    return <MultiSelect {...common} searchable data={choices ?? []} value={several(value)} onChange={(chosen) => set(chosen.join(","))} />;
  }
  if (choices) {
    return <NativeSelect {...common} data={choices} value={value} onChange={(event) => set(event.currentTarget.value)} />;
  }
  const typed = { ...common, value, placeholder: example, required: !optional, withAsterisk: false };
  if (kind === "secret") return <PasswordInput {...typed} autoComplete="off" onChange={(event) => set(event.currentTarget.value)} />;
  if (kind === "lines") return <Textarea {...typed} autosize minRows={4} onChange={(event) => set(event.currentTarget.value)} />;
  return <TextInput {...typed} onChange={(event) => set(event.currentTarget.value)} />;
}

/** Choices that were made, from a form's value. */
export function several(value: string | undefined): string[] {
  return value ? value.split(",") : [];
}

/** What a change does, or costs, above its fields. */
export function Consequence({ children, lost }: { children: ReactNode; lost?: boolean }) {
  return <Text size="sm" c={lost ? "red" : undefined}>{children}</Text>;
}
