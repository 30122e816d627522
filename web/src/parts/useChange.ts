import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";

/** Asks the node to change something; what is shown is read again once it has. */
export function useChange<Input>(change: (input: Input) => Promise<unknown>, done: (input: Input) => string) {
  const queries = useQueryClient();
  return useMutation<unknown, Error, Input>({
    mutationFn: change,
    onSuccess: (_, input) => {
      notifications.show({ message: done(input), color: "green" });
      // Space is counted in a pass over all maps: nobody asks for it again by the way.
      void queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "usage" });
    },
  });
}
