// tests/unit/topology/topology_config_test.cpp -- reading topology files: every fault at once; round trips; lookups.
#include "topology/topology_config.h"

#include <algorithm>

#include "base/error.h"
#include "support/catch.h"

using namespace trainctl;

namespace {

// A sound two-level topology in which tests break one thing at a time.
const std::string kSound = R"({
  "name": "lab",
  "node_types": [
    { "name": "fat", "sockets": 2, "cores": 16, "memory_bytes": 64000000000, "nics": 2, "nic_bytes_per_s": 12.5e9 },
    { "name": "gpu", "cores": 32, "memory_bytes": 128000000000,
      "devices": { "kind": "cuda", "count": 4, "memory_bytes": 80000000000, "peak_flops_bf16": 989e12 } }
  ],
  "nodes": [
    { "names": "a[1-3]", "type": "fat", "switch": "leaf1" },
    { "names": "b[1-2]", "type": "fat", "switch": "leaf2" },
    { "names": "c1", "type": "gpu", "switch": "deep" },
    { "names": "alone", "type": "fat" }
  ],
  "switches": [
    { "name": "leaf1", "oversubscription": 2, "uplink": "spine" },
    { "name": "leaf2", "oversubscription": 3, "uplink": "spine" },
    { "name": "deep", "oversubscription": 1.5, "uplink": "leaf2" },
    { "name": "spine", "oversubscription": 1 }
  ],
  "storage": [ { "name": "scratch", "path": "/scratch", "write_bytes_per_s": 1e9 } ],
  "origins": [ { "key": "node_types[1].devices.peak_flops_bf16", "origin": "reported" } ]
})";

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kSound;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string faults_of(const std::string& text) {
  try {
    topology_from_text(text, "t.json");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::config);
    return e.what();
  }
  FAIL("a faulty topology was accepted");
  return "";
}

}  // namespace

TEST_CASE("a sound topology reads into values", "[topology]") {
  const TopologyConfig t = topology_from_text(kSound, "t.json");
  CHECK(t.name == "lab");
  REQUIRE(t.node_types.size() == 2);
  CHECK(t.node_types[0].cores == 16);
  CHECK(t.node_types[0].nic_bytes_per_s == 12.5e9);
  CHECK(t.node_types[1].devices.kind == "cuda");
  CHECK(slots_of(t.node_types[0]) == 16);
  CHECK(slots_of(t.node_types[1]) == 4);
  CHECK(device_memory_bytes(t.node_types[0]) == 4000000000);
  CHECK(device_memory_bytes(t.node_types[1]) == 80000000000);
  CHECK(t.nodes[0].switch_name == "leaf1");
  CHECK(origin_of(t, "node_types[1].devices.peak_flops_bf16") == "reported");
  CHECK(origin_of(t, "node_types[0].cores") == "");
  const std::vector<Host> hosts = expand_hosts(t);
  REQUIRE(hosts.size() == 7);
  CHECK(hosts[4].name == "b2");
  CHECK(hosts[5].type == 1);
  CHECK(hosts[3].switch_index == 1);
  CHECK(hosts[6].switch_index == -1);
}

TEST_CASE("writing and reading a topology gives it back", "[topology]") {
  const std::string once = to_json_text(topology_from_text(kSound, "t.json"));
  CHECK(to_json_text(topology_from_text(once, "t.json")) == once);
  CHECK_THAT(once, Catch::Contains("\"uplink\": \"spine\"") && Catch::Contains("\"names\": \"a[1-3]\"") &&
                       Catch::Contains("\"link_latency_s\""));
}

TEST_CASE("oversubscription multiplies along the way up to the common switch", "[topology]") {
  const TopologyConfig t = topology_from_text(kSound, "t.json");
  const std::vector<Host> hosts = expand_hosts(t);  // a1 a2 a3 b1 b2 c1 alone
  CHECK(oversubscription_between(t, hosts[0], hosts[1]) == 1);
  CHECK(oversubscription_between(t, hosts[0], hosts[3]) == 3);    // leaf1 2, leaf2 3: the worse side
  CHECK(oversubscription_between(t, hosts[5], hosts[3]) == 1.5);  // deep leaves into leaf2, where b1 is
  CHECK(oversubscription_between(t, hosts[0], hosts[5]) == 4.5);  // deep, then leaf2
  CHECK(oversubscription_between(t, hosts[5], hosts[0]) == 4.5);
  CHECK(oversubscription_between(t, hosts[6], hosts[6]) == 1);
}

TEST_CASE("all faults between fields come together", "[topology]") {
  std::string text = replaced("\"type\": \"gpu\"", "\"type\": \"gpuu\"");
  text.replace(text.find("\"switch\": \"leaf2\""), 17, "\"switch\": \"leef2\"");
  text.replace(text.find("b[1-2]"), 6, "a[3-4]");
  text.replace(text.find("\"count\": 4"), 10, "\"count\": 0");
  const std::string faults = faults_of(text);
  CHECK_THAT(faults, Catch::Contains("nodes[2].type") && Catch::Contains("did you mean \"gpu\""));
  CHECK_THAT(faults, Catch::Contains("nodes[1].switch") && Catch::Contains("did you mean \"leaf2\""));
  CHECK_THAT(faults, Catch::Contains("host \"a3\" is listed twice"));
  CHECK_THAT(faults, Catch::Contains("node_types[1].devices.count"));
}

TEST_CASE("each rule between fields is checked", "[topology]") {
  CHECK_THAT(faults_of(replaced("\"cores\": 16", "\"cores\": 1")), Catch::Contains("fewer than the 2 sockets"));
  CHECK_THAT(faults_of(replaced("\"name\": \"gpu\"", "\"name\": \"fat\"")), Catch::Contains("used twice"));
  CHECK_THAT(faults_of(replaced("\"nic_bytes_per_s\": 12.5e9", "\"nic_bytes_per_s\": 0")),
             Catch::Contains("is 0 with 2 network ports"));
  CHECK_THAT(faults_of(replaced("\"uplink\": \"leaf2\"", "\"uplink\": \"deep\"")),
             Catch::Contains("lead back to itself"));
  CHECK_THAT(
      faults_of(replaced("\"name\": \"spine\", \"oversubscription\": 1", "\"name\": \"spine\", \"uplink\": \"leaf1\"")),
      Catch::Contains("lead back to itself"));
  CHECK_THAT(faults_of(replaced("\"uplink\": \"leaf2\"", "\"uplink\": \"roof\"")), Catch::Contains("names no switch"));
  CHECK_THAT(faults_of(replaced("a[1-3]", "a[3-1]")), Catch::Contains("nodes[0].names") && Catch::Contains("descends"));
  CHECK_THAT(faults_of(replaced("node_types[1].devices.peak_flops_bf16", "node_types[7].cores")),
             Catch::Contains("origins[0].key") && Catch::Contains("is no number"));
  for (const char* key : {"name", "node_types[1]", "node_types[", "node_types[]", "node_types[x].cores", "..", "[0]",
                          "node_types[99999999999999999999].cores", "node_types[1].devices.kind", "nodes[0]cores"})
    CHECK_THAT(faults_of(replaced("node_types[1].devices.peak_flops_bf16", key)), Catch::Contains("is no number"));
  CHECK_THAT(faults_of(R"({"name": "x", "node_types": [], "nodes": []})"),
             Catch::Contains("node_types is empty") || Catch::Contains("node_types: is empty"));
}

TEST_CASE("unknown keys, wrong types and broken bounds are refused with their place", "[topology]") {
  CHECK_THAT(faults_of(replaced("\"sockets\": 2", "\"sokets\": 2")),
             Catch::Contains("t.json:4:") && Catch::Contains("sokets") && Catch::Contains("sockets"));
  CHECK_THAT(faults_of(replaced("\"cores\": 16", "\"cores\": \"many\"")), Catch::Contains("node_types[0].cores"));
  CHECK_THAT(faults_of(replaced("\"cores\": 16", "\"cores\": 0")), Catch::Contains("node_types[0].cores"));
  CHECK_THAT(faults_of(replaced("\"kind\": \"cuda\"", "\"kind\": \"cuda12\"")), Catch::Contains("cuda12"));
  CHECK_THAT(faults_of(replaced("\"oversubscription\": 2", "\"oversubscription\": 0.5")),
             Catch::Contains("switches[0].oversubscription"));
  CHECK_THAT(faults_of(replaced("\"origin\": \"reported\"", "\"origin\": \"guessed\"")), Catch::Contains("guessed"));
  CHECK_THAT(faults_of(replaced("\"name\": \"lab\",", "")), Catch::Contains("name"));
  CHECK_THAT(faults_of("[]"), Catch::Contains("t.json"));
  CHECK_THAT(faults_of("{"), Catch::Contains("t.json:1:"));
  CHECK_THROWS_AS(load_topology("does/not/exist.json"), Error);
}

TEST_CASE("faults of keys and of references come in one list, and a broken field has no second fault", "[topology]") {
  std::string text = replaced("\"sockets\": 2", "\"sokets\": 2");
  text.replace(text.find("\"type\": \"gpu\""), 13, "\"type\": \"gpuu\"");
  text.replace(text.find("a[1-3]"), 6, "a[3-1]");
  const std::string faults = faults_of(text);
  CHECK_THAT(faults, Catch::Contains("sokets") && Catch::Contains("names no node type") && Catch::Contains("descends"));
  CHECK(std::count(faults.begin(), faults.end(), '\n') == 2);
  // What refers to a name that could not be read is not blamed, nor is a number that could not be.
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"name\": \"gpu\"", "\"name\": 7"},
           {"\"name\": \"leaf1\"", "\"nam\": \"leaf1\""},
           {"\"count\": 4", "\"count\": \"four\""},
           {"\"peak_flops_bf16\": 989e12", "\"peak_flops_bf16\": \"fast\""},
           {"\"type\": \"gpu\"", "\"type\": null"},
           {"\"names\": \"alone\"", "\"names\": 1"}}) {
    INFO(to);
    const std::string one = faults_of(replaced(from, to));
    INFO(one);
    CHECK(std::count(one.begin(), one.end(), '\n') == 0);
  }
}
