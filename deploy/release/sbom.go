package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"os"
	"runtime/debug"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes which modules are in a program, as the go command has recorded them in it. Replaced modules are those that
// replace them.
func writeSBOM(version, program, to string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	main := component(cyclonedx.ComponentTypeApplication, &debug.Module{Path: info.Main.Path, Version: version})
	main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	main.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	built := []cyclonedx.Property{{Name: "cdx:go:version", Value: info.GoVersion}}
	for _, s := range info.Settings {
		built = append(built, cyclonedx.Property{Name: "cdx:go:build:" + s.Key, Value: s.Value})
	}
	main.Properties = &built

	components := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, &debug.Module{Path: "std", Version: info.GoVersion})}
	for _, m := range info.Deps {
		components = append(components, component(cyclonedx.ComponentTypeLibrary, cmp.Or(m.Replace, m)))
	}
	refs := make([]string, 0, len(components))
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}

func component(kind cyclonedx.ComponentType, m *debug.Module) cyclonedx.Component {
	url := "pkg:golang/" + m.Path + "@" + m.Version
	return cyclonedx.Component{Type: kind, BOMRef: url, Name: m.Path, Version: m.Version, PackageURL: url}
}
