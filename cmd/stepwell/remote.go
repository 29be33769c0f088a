package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/app"
)

// defaultServer is where `stepwell serve` is when nothing else is said.
const defaultServer = "http://" + defaultListen

// remotePatience bounds one call of the API.
const remotePatience = 60 * time.Second

// connection says which API a command speaks to.
type connection struct {
	server string
	output *choice
	here   bool // without a server, the API in this process over the database
	lasts  bool // for as long as it takes
}

// add adds the flags of a command that works on a database without a server, or that needs one.
func (c *connection) add(p *program, f *pflag.FlagSet) {
	c.output = format(f, "text", "json")
	if c.here {
		p.settings.addDB(f)
	}
	c.addServer(f, c.output)
}

func (c *connection) addServer(f *pflag.FlagSet, output *choice) {
	c.output = output
	if c.here {
		f.StringVar(&c.server, "server", "", "`URL` of a server to ask instead of the database; else STEPWELL_SERVER")
		return
	}
	f.StringVar(&c.server, "server", "", "`URL` of the server; else STEPWELL_SERVER, else "+defaultServer)
}

// elsewhere reports whether a server is named, by --server or STEPWELL_SERVER.
func (p *program) elsewhere(c *connection) bool {
	v, _ := p.env("STEPWELL_SERVER")
	return c.server != "" || v != ""
}

// dial makes a client, and what lets go of it. The key comes from the environment: arguments are seen by everybody on the
// machine.
func (p *program) dial(ctx context.Context, c *connection) (*api.Client, func() error, error) {
	if c.here && !p.elsewhere(c) {
		o, err := p.options()
		if err != nil {
			return nil, nil, err
		}
		o.DB, o.Log = p.settings.db, p.log()
		r, err := app.OpenReading(ctx, o)
		if err != nil {
			return nil, nil, err
		}
		return r.Client, r.Close, nil
	}
	named, _ := p.env("STEPWELL_SERVER")
	key, _ := p.env("STEPWELL_API_KEY")
	client, err := api.NewClient(api.ClientOptions{URL: cmp.Or(c.server, named, defaultServer), Token: key})
	return client, func() error { return nil }, err
}

// calling runs f with a client and a context that ends with an interrupt and, unless the call lasts, with the patience for a
// server.
func (p *program) calling(c *connection, f func(ctx context.Context, client *api.Client) error) (err error) {
	alive, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	client, end, err := p.dial(alive, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx := alive
	if !c.here && !c.lasts || p.elsewhere(c) && !c.lasts {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(alive, remotePatience, stepwell.Errorf(stepwell.CodeTimeout, "", "no answer within %s", remotePatience))
		defer cancel()
	}
	if err = f(ctx, client); err != nil && alive.Err() != nil {
		return exitError(exitInterrupted)
	}
	return err
}

// pathTo joins parts of a path, each of which may hold anything.
func pathTo(parts ...string) string {
	var b strings.Builder
	b.WriteString("/api/v1")
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(part))
	}
	return b.String()
}

// object is one JSON object of an answer.
type object = map[string]any

// pages lists everything under a path, page by page, at most so many; items is the list's name in the answer.
func pages(ctx context.Context, client *api.Client, path, items string, query url.Values, most int) ([]object, error) {
	all := []object{}
	for most > len(all) {
		var page map[string]json.RawMessage
		query.Set("limit", strconv.Itoa(min(100, most-len(all))))
		if err := client.Call(ctx, "GET", path, query, nil, &page); err != nil {
			return nil, err
		}
		var rows []object
		if err := decodeAnswer(page[items], &rows); err != nil {
			return nil, err
		}
		all = append(all, rows...)
		var next string
		if raw, ok := page["next_cursor"]; ok {
			if err := json.Unmarshal(raw, &next); err != nil {
				return nil, fmt.Errorf("answer: %w", err)
			}
		}
		if next == "" || len(rows) == 0 {
			break
		}
		query.Set("cursor", next)
	}
	return all, nil
}

func decodeAnswer(raw json.RawMessage, v any) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("the server's answer is not understood: %w", err)
	}
	return nil
}

// answered shows what a call has given: the JSON, or a line for people.
func (p *program) answered(c *connection, answer any, line string, args ...any) error {
	if c.output.value == "json" {
		return writeJSON(p.out, answer)
	}
	_, err := fmt.Fprintf(p.out, line+"\n", args...)
	return err
}

// verb makes a command that calls one path of one object, such as `schedules pause ID`.
func (p *program) verb(use, short, method string, path func(id string) string, line string) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  arguments(1, 1, strings.ToUpper(strings.Fields(use)[1])),
		RunE: func(_ *cobra.Command, args []string) error {
			return p.calling(&c, func(ctx context.Context, client *api.Client) error {
				var answer any
				if err := client.Call(ctx, method, path(args[0]), nil, nil, &answer); err != nil {
					return err
				}
				if o, ok := answer.(object); ok && c.output.value == "text" && len(o) > 0 {
					fmt.Fprintf(p.out, line+"\n", printable(args[0]))
					return p.showObject(o)
				}
				if answer == nil {
					answer = object{}
				}
				return p.answered(&c, answer, line, printable(args[0]))
			})
		},
	}
	c.add(p, cmd.Flags())
	return cmd
}

// group makes a command that only has others below it.
func (p *program) group(name string, aliases []string, short, long string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Aliases: aliases, Short: short, Args: p.unknownCommand,
		Long: long + "\n\nIt speaks to a server: --server URL, else STEPWELL_SERVER, else " + defaultServer + ". The API key is that\nof STEPWELL_API_KEY.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(subs...)
	return cmd
}
