// Command check holds what people deploy Stepwell with against the definitions of the tools that read it:
//
//	check compose FILE                 # the compose file, with what it stands for; as JSON
//	check chart FOLDER [VALUES.yaml]   # the chart, rendered with more values; as manifests
//
// A chart is rendered by Helm's own library, strictly: a value that is not there is an error. Values are held against its
// schema, and manifests against Kubernetes' types, in which an unknown key is an error.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("check: ")
	args := os.Args[1:]
	var err error
	switch {
	case len(args) == 2 && args[0] == "compose":
		err = compose(args[1])
	case len(args) >= 2 && args[0] == "chart":
		err = render(args[1], args[2:])
	default:
		log.Fatal("usage: check compose FILE | check chart FOLDER [VALUES.yaml…]")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// compose reads the file as Compose does: its schema, its references between services, secrets and volumes.
func compose(file string) error {
	name, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{WorkingDir: filepath.Dir(name),
		ConfigFiles: []types.ConfigFile{{Filename: name}}, Environment: types.Mapping{}},
		func(o *loader.Options) { o.SetProjectName("stepwell", true) })
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(project)
}

// render writes the manifests in the order of their files.
func render(folder string, files []string) error {
	c, err := chart.Load(folder)
	if err != nil {
		return err
	}
	given := map[string]any{}
	for _, name := range files {
		more, err := common.ReadValuesFile(name)
		if err != nil {
			return err
		}
		given = util.MergeTables(more, given)
	}
	values, err := util.ToRenderValues(c, given, common.ReleaseOptions{Name: "stepwell", Namespace: "stepwell", Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return err
	}
	rendered, err := engine.Engine{Strict: true}.RenderWithContext(context.Background(), c, values)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(rendered))
	for name := range rendered {
		if base := path.Base(name); base != "NOTES.txt" && base[0] != '_' {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(path.Base(a), path.Base(b)) })
	var out bytes.Buffer
	var all manifests
	for _, name := range names {
		for _, text := range strings.Split(rendered[name], "\n---\n") {
			if text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "---")); text == "" {
				continue
			}
			if err := all.read(text); err != nil {
				return fmt.Errorf("%s: %w\n%s", name, err, text)
			}
			fmt.Fprintf(&out, "---\n%s\n", text)
		}
	}
	if err := all.check(); err != nil {
		return err
	}
	_, err = out.WriteTo(os.Stdout)
	return err
}
