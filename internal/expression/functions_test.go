// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// chargedEnough are the functions for which Kubernetes charges as much as they can take. What they
// read is short, or paid for by its length.
var chargedEnough = strings.Fields(`
	!_ -_ @not_strictly_false __not_strictly_false__ @sortByAssociatedKeys _%_ _&&_ _*_ _-_ _/_ _?._ _?_:_ _[?_]
	_[_] _||_ _in_ in add allowed asApproximateFloat asInteger cel.@mapInsert check cidr contains containsCIDR
	containsIP dyn endsWith error errored family fieldSelector first format.byte format.date format.datetime
	format.dns1035Label format.dns1035LabelPrefix format.dns1123Label format.dns1123LabelPrefix
	format.dns1123Subdomain format.dns1123SubdomainPrefix format.labelValue format.named format.qualifiedName
	format.uri format.uuid getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds
	getMinutes getMonth getSeconds group hasValue ip ip.isCanonical isCIDR isGlobalUnicast isIP isInteger
	isLinkLocalMulticast isLinkLocalUnicast isLoopback isSemver isURL isUnspecified jsonpatch.escapeKey
	labelSelector last lowerAscii major masked minor name namespace optional.none optional.of
	optional.ofNonZeroValue optional.unwrap or orValue patch path prefixLength reason resource semver
	serviceAccount sign startsWith sub subresource substring trim type unwrapOpt upperAscii url validate value`)

// bounded are the functions that boundNode has cases for.
var bounded = strings.Fields(`_==_ _!=_ @in includes matches find findAll quantity isQuantity`)

// A function that is new in Kubernetes may do more work than it charges for, or return more. Whoever
// adds it to one of these lists has looked.
func TestFunctionsAreKnown(t *testing.T) {
	known := slices.Concat(chargedEnough, bounded, slices.Collect(maps.Keys(resultSizes)),
		slices.Collect(maps.Keys(readCosts)), slices.Collect(maps.Keys(dynamicCosts)))
	err := withChecker(declarations{patches: true, authorizer: true}, func(c *checker) error {
		for name := range c.functions {
			if !slices.Contains(known, name) {
				t.Errorf("nobody has looked at what %s costs", name)
			}
		}
		for _, name := range known {
			if c.functions[name] == nil {
				t.Errorf("there is no function %s any more", name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
