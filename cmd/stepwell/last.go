package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/stepwell/stepwell/api/client"
)

// last is the id that stands for the newest.
const last = "last"

// lastOf is a list, newest first, whose first entry the id "last" stands for.
type lastOf struct{ path, items, id, none string }

var (
	newestExecution = &lastOf{"executions", "executions", "execution_id", "there is no execution yet"}
	newestRun       = &lastOf{"pipeline-runs", "data", "id", "there is no pipeline run yet"}
)

// resolve replaces "last" in the first argument, by itself or before a dot ("last.ask", an approval), by the id that it stands
// for.
func (n *lastOf) resolve(ctx context.Context, client *client.Client, args []string) error {
	if n == nil || len(args) == 0 {
		return nil
	}
	name, step, dotted := strings.Cut(args[0], ".")
	if name != last {
		return nil
	}
	rows, err := client.Pages(ctx, pathTo(n.path), n.items, url.Values{}, 1)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return notFound("`stepwell run FILE` starts one", "%s", n.none)
	}
	args[0] = fmt.Sprint(rows[0][n.id])
	if dotted {
		args[0] += "." + step
	}
	return nil
}
