from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Topology(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOPOLOGY_UNSPECIFIED: _ClassVar[Topology]
    TOPOLOGY_EMBEDDED: _ClassVar[Topology]
    TOPOLOGY_POSTGRES: _ClassVar[Topology]
    TOPOLOGY_COCKROACH: _ClassVar[Topology]
TOPOLOGY_UNSPECIFIED: Topology
TOPOLOGY_EMBEDDED: Topology
TOPOLOGY_POSTGRES: Topology
TOPOLOGY_COCKROACH: Topology

class GetCapabilitiesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCapabilitiesResponse(_message.Message):
    __slots__ = ("version", "api", "digest_algorithm", "chain_start", "fork_modes", "era", "limits", "regions")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    API_FIELD_NUMBER: _ClassVar[int]
    DIGEST_ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    CHAIN_START_FIELD_NUMBER: _ClassVar[int]
    FORK_MODES_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    version: str
    api: str
    digest_algorithm: str
    chain_start: bytes
    fork_modes: _containers.RepeatedScalarFieldContainer[str]
    era: int
    limits: _containers.ScalarMap[str, int]
    regions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[str] = ..., api: _Optional[str] = ..., digest_algorithm: _Optional[str] = ..., chain_start: _Optional[bytes] = ..., fork_modes: _Optional[_Iterable[str]] = ..., era: _Optional[int] = ..., limits: _Optional[_Mapping[str, int]] = ..., regions: _Optional[_Iterable[str]] = ...) -> None: ...

class GetRegionStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetRegionStatusResponse(_message.Message):
    __slots__ = ("region", "topology", "leader_reachable", "leader_region", "local_reachable", "local_is_leader", "lag_bytes", "lag_ms", "draining")
    REGION_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    LEADER_REACHABLE_FIELD_NUMBER: _ClassVar[int]
    LEADER_REGION_FIELD_NUMBER: _ClassVar[int]
    LOCAL_REACHABLE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_IS_LEADER_FIELD_NUMBER: _ClassVar[int]
    LAG_BYTES_FIELD_NUMBER: _ClassVar[int]
    LAG_MS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    region: str
    topology: Topology
    leader_reachable: bool
    leader_region: str
    local_reachable: bool
    local_is_leader: bool
    lag_bytes: int
    lag_ms: int
    draining: bool
    def __init__(self, region: _Optional[str] = ..., topology: _Optional[_Union[Topology, str]] = ..., leader_reachable: _Optional[bool] = ..., leader_region: _Optional[str] = ..., local_reachable: _Optional[bool] = ..., local_is_leader: _Optional[bool] = ..., lag_bytes: _Optional[int] = ..., lag_ms: _Optional[int] = ..., draining: _Optional[bool] = ...) -> None: ...
