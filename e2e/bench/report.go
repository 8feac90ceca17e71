//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// A metric is one column.
type metric struct {
	name   string
	format string
	value  func(sample) float64
	modes  []string // that show its ratio; others show only the value
}

var metrics = []metric{
	{"CPU µs/request", "%.1f", func(s sample) float64 { return s.CPURequest }, []string{"whole"}},
	{"CPU µs/delta", "%.2f", func(s sample) float64 { return s.CPUDelta }, []string{"stream", "slow"}},
	{"CPU µs of PostgreSQL", "%.0f", func(s sample) float64 { return s.CPUStore }, nil},
	{"reads+writes", "%.1f", func(s sample) float64 { return s.Calls }, nil},
	{"requests/s", "%.0f", func(s sample) float64 { return s.Rate }, []string{"whole", "stream"}},
	{"p50 ms", "%.1f", func(s sample) float64 { return s.P50 }, nil},
	{"p99 ms", "%.1f", func(s sample) float64 { return s.P99 }, []string{"whole", "stream"}},
	{"first p50 ms", "%.1f", func(s sample) float64 { return s.First50 }, nil},
	{"first p99 ms", "%.1f", func(s sample) float64 { return s.First99 }, []string{"stream"}},
	{"idle MB", "%.1f", func(s sample) float64 { return s.IdleMB }, nil},
	{"full MB", "%.1f", func(s sample) float64 { return s.FullMB }, nil},
	{"KB each", "%.1f", func(s sample) float64 { return s.EachKB }, []string{"slow", "idle"}},
}

// line formats a sample for display during the run.
func (s sample) line() string {
	var parts []string
	for _, m := range metrics {
		if v := m.value(s); v != 0 {
			parts = append(parts, fmt.Sprintf(m.format+" %s", v, m.name))
		}
	}
	return strings.Join(parts, ", ")
}

// A result is a metric of a gateway over all rounds.
type result struct {
	Mode    string  `json:"mode"`
	Gateway string  `json:"gateway"`
	Vendor  string  `json:"vendor"`
	Wire    string  `json:"wire"`
	Metric  string  `json:"metric"`
	Median  float64 `json:"median"`
	// Ratio is the median of the ratios to the proxy in the same round, ToBase the median of
	// the ratios to the older binary; 0 if not measured.
	Ratio  float64 `json:"ratioToProxy,omitempty"`
	ToBase float64 `json:"ratioToBase,omitempty"`
}

// results summarizes samples, in order of modes and gateways.
func results(samples []sample, gateways []*gateway) (out []result) {
	find := func(mode, vendor, gateway, wire string, round int) (sample, bool) {
		i := slices.IndexFunc(samples, func(s sample) bool {
			return s.Mode == mode && s.Vendor == vendor && s.Gateway == gateway && (wire == "" || s.Wire == wire) && s.Round == round
		})
		if i < 0 {
			return sample{}, false
		}
		return samples[i], true
	}
	summarize := func(of result, g *gateway, m metric) {
		var values, ratios, toBase []float64
		for round := 1; ; round++ {
			s, ok := find(of.Mode, of.Vendor, g.name, of.Wire, round)
			if !ok {
				break
			}
			v := m.value(s)
			if v == 0 {
				continue
			}
			values = append(values, v)
			if p, ok := find(of.Mode, of.Vendor, "proxy", "", round); ok && m.value(p) != 0 {
				ratios = append(ratios, v/m.value(p))
			}
			if b, ok := find(of.Mode, of.Vendor, g.base, of.Wire, round); ok && m.value(b) != 0 {
				toBase = append(toBase, v/m.value(b))
			}
		}
		if len(values) > 0 {
			of.Median, of.Ratio, of.ToBase = median(values), median(ratios), median(toBase)
			out = append(out, of)
		}
	}
	for _, mode := range allModes {
		for _, vendor := range allVendors {
			for _, g := range gateways {
				for _, wire := range g.wires {
					for _, m := range metrics {
						summarize(result{Mode: mode, Vendor: vendor, Gateway: g.name, Wire: wire, Metric: m.name}, g, m)
					}
				}
			}
		}
	}
	return out
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// title describes a mode.
func (d *driver) title(mode string) string {
	switch mode {
	case "whole":
		return fmt.Sprintf("whole: %d callers, replies of %d bytes as one", d.connections, d.bytes)
	case "stream":
		return fmt.Sprintf("stream: %d callers, replies of %d bytes as %d deltas", d.connections, d.bytes, d.deltas)
	case "slow":
		return fmt.Sprintf("slow: %d streams at a time; p50 and p99 are of the gap between two deltas", d.streams)
	case "sessions":
		return fmt.Sprintf("sessions: %d callers start a session on the sandbox model and wait for its answer", d.connections)
	default:
		return fmt.Sprintf("idle: %d connections kept after one call each", d.idleConnections)
	}
}

// print prints a table per mode: each value, and in parentheses its ratio to the
// proxy and to the older binary.
func (d *driver) print(all []result) error {
	for _, mode := range allModes {
		rows := slices.DeleteFunc(slices.Clone(all), func(r result) bool { return r.Mode != mode })
		if len(rows) == 0 {
			continue
		}
		columns := slices.DeleteFunc(slices.Clone(metrics), func(m metric) bool {
			return !slices.ContainsFunc(rows, func(r result) bool { return r.Metric == m.name })
		})
		fmt.Fprintf(d.out, "\n%s\n\n", d.title(mode))
		w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
		fmt.Fprint(w, "vendor\tgateway\twire")
		for _, c := range columns {
			fmt.Fprint(w, "\t", c.name)
		}
		for i, r := range rows {
			if i == 0 || !sameRow(rows[i-1], r) {
				fmt.Fprintf(w, "\n%s\t%s\t%s", r.Vendor, r.Gateway, r.Wire)
				for _, c := range columns {
					fmt.Fprint(w, "\t", cell(rows, r, c))
				}
			}
		}
		fmt.Fprintln(w)
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(d.out, "\n(in parentheses: × Go's ReverseProxy in the same rounds; with b: × the older binary, or without these budgets)")
	return nil
}

func sameRow(a, b result) bool {
	return a.Vendor == b.Vendor && a.Gateway == b.Gateway && a.Wire == b.Wire
}

// cell formats one metric of the gateway and wire of a row.
func cell(rows []result, of result, m metric) string {
	i := slices.IndexFunc(rows, func(r result) bool {
		return sameRow(r, of) && r.Metric == m.name
	})
	if i < 0 {
		return "-"
	}
	r := rows[i]
	text := fmt.Sprintf(m.format, r.Median)
	var ratios []string
	if r.Ratio != 0 && slices.Contains(m.modes, r.Mode) {
		ratios = append(ratios, fmt.Sprintf("%.2f", r.Ratio))
	}
	if r.ToBase != 0 {
		ratios = append(ratios, fmt.Sprintf("b%.3f", r.ToBase))
	}
	if len(ratios) > 0 {
		text += " (" + strings.Join(ratios, " ") + ")"
	}
	return text
}
