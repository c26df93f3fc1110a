// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.37;

// A token with Tether's manners on Tron: transfer answers false although it moved (transferFrom answers true), a fee can
// be switched on, the sender alone is looked up in the blacklist, and all can be paused. Whoever deploys it is its
// issuer, and names the holder of the whole supply.
contract TronUsdt {
    string public constant name = "Tether USD";
    string public constant symbol = "USDT";
    uint8 public constant decimals = 6;
    address public immutable issuer;
    uint256 public immutable totalSupply;
    bool public paused;
    uint256 public basisPointsRate;
    uint256 public maximumFee;
    mapping(address account => bool) public isBlackListed;
    mapping(address account => uint256) public balanceOf;
    mapping(address owner => mapping(address spender => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event AddedBlackList(address indexed account);
    event RemovedBlackList(address indexed account);
    event Params(uint256 feeBasisPoints, uint256 maxFee);
    event Pause();
    event Unpause();

    modifier onlyIssuer() {
        require(msg.sender == issuer);
        _;
    }
    modifier whenNotPaused() {
        require(!paused);
        _;
    }

    constructor(address holder, uint256 supply) {
        issuer = msg.sender;
        totalSupply = supply;
        balanceOf[holder] = supply;
        emit Transfer(address(0), holder, supply);
    }

    function transfer(address to, uint256 value) external whenNotPaused returns (bool) {
        require(!isBlackListed[msg.sender]);
        _transfer(msg.sender, to, value);
        return false;
    }

    function transferFrom(address from, address to, uint256 value) external whenNotPaused returns (bool) {
        require(!isBlackListed[from]);
        if (allowance[from][msg.sender] != type(uint256).max) allowance[from][msg.sender] -= value;
        _transfer(from, to, value);
        return true;
    }

    function approve(address spender, uint256 value) external whenNotPaused returns (bool) {
        require(value == 0 || allowance[msg.sender][spender] == 0);
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function addBlackList(address account) external onlyIssuer {
        isBlackListed[account] = true;
        emit AddedBlackList(account);
    }

    function removeBlackList(address account) external onlyIssuer {
        isBlackListed[account] = false;
        emit RemovedBlackList(account);
    }

    function setParams(uint256 newBasisPoints, uint256 newMaxFee) external onlyIssuer {
        basisPointsRate = newBasisPoints;
        maximumFee = newMaxFee;
        emit Params(newBasisPoints, newMaxFee);
    }

    function pause() external onlyIssuer {
        paused = true;
        emit Pause();
    }

    function unpause() external onlyIssuer {
        paused = false;
        emit Unpause();
    }

    function _transfer(address from, address to, uint256 value) private {
        require(to != address(0));
        uint256 fee = (value * basisPointsRate) / 10000;
        if (fee > maximumFee) fee = maximumFee;
        balanceOf[from] -= value;
        balanceOf[to] += value - fee;
        emit Transfer(from, to, value - fee);
        if (fee == 0) return;
        balanceOf[issuer] += fee;
        emit Transfer(from, issuer, fee);
    }
}
